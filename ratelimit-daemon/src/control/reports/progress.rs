//! How far the controller is with a long change, for whoever waits for it: told beside the controller, which is busy.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use ratelimit_core::api::Progress as View;

/// What there is to do and what of it is done. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Steps>);

#[derive(Debug, Default)]
struct Steps {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Begins a change of so many steps.
    pub fn begin(&self, total: u64) {
        self.0.done.store(0, Relaxed);
        self.0.total.store(total, Relaxed);
    }

    /// So many more are done.
    pub fn advance(&self, steps: usize) {
        self.0.done.fetch_add(steps as u64, Relaxed);
    }

    /// The change was made, or was not.
    pub fn end(&self) {
        self.0.total.store(0, Relaxed);
    }

    /// How many steps were done.
    pub fn done(&self) -> u64 {
        self.0.done.load(Relaxed)
    }

    /// How far it is; nothing of nothing, when there is no such change.
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
    fn a_change_is_told_from_its_beginning_to_its_end_and_never_past_it() {
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
