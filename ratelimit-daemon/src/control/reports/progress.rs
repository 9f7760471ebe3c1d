//! The progress of a long change, readable while the controller is busy with it.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use ratelimit_core::api::Progress as View;

/// The total and the completed steps. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Steps>);

#[derive(Debug, Default)]
struct Steps {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Starts a change with `total` steps.
    pub fn begin(&self, total: u64) {
        self.0.done.store(0, Relaxed);
        self.0.total.store(total, Relaxed);
    }

    /// Adds completed steps.
    pub fn advance(&self, steps: usize) {
        self.0.done.fetch_add(steps as u64, Relaxed);
    }

    /// Ends the change, successful or not.
    pub fn end(&self) {
        self.0.total.store(0, Relaxed);
    }

    /// Returns the completed steps.
    pub fn done(&self) -> u64 {
        self.0.done.load(Relaxed)
    }

    /// Returns the progress. All zeros if there is no such change.
    pub fn view(&self) -> View {
        let total = self.0.total.load(Relaxed);
        View {
            done: self.done().min(total),
            total,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_reported_from_its_beginning_to_its_end_and_never_past_it() {
        let progress = Progress::default();
        let reported = progress.clone();
        let view = |done, total| View { done, total };
        assert_eq!(reported.view(), view(0, 0));
        progress.begin(10);
        progress.advance(7);
        assert_eq!(reported.view(), view(7, 10));
        progress.advance(7);
        assert_eq!(reported.view(), view(10, 10));
        progress.end();
        assert_eq!(reported.view(), view(0, 0));
        progress.begin(3);
        assert_eq!(reported.view(), view(0, 3));
    }
}
