//! How the controller keeps up: requests that wait for it, when it last did what is due each second, and what it refused. It is reported
//! beside the controller, which may be busy.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::clock;
use ratelimit_core::api::Code;

/// What the controller is asked for. Clones are the same one.
#[derive(Clone, Debug)]
pub struct Workload(Arc<Figures>);

#[derive(Debug)]
struct Figures {
    waiting: AtomicUsize,
    ticked: Mutex<Instant>,
    refused: [AtomicU64; Code::ALL.len()],
}

/// A request that waits, until this is dropped.
pub struct Waiting(Workload);

/// A workload as it was at one moment.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// Since when the controller has not done what is due each second.
    pub tick_age: Duration,
    /// Commands that were refused, by code.
    pub refused: Vec<(Code, u64)>,
}

impl Default for Workload {
    fn default() -> Self {
        Self(Arc::new(Figures {
            waiting: AtomicUsize::default(),
            ticked: Mutex::new(clock::monotonic()),
            refused: Default::default(),
        }))
    }
}

impl Workload {
    /// Counts a request until it has its turn.
    pub fn wait(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }

    /// The controller has done what is due each second.
    pub fn tick(&self) {
        *self.ticked() = clock::monotonic();
    }

    /// Counts a command that was refused.
    pub fn refuse(&self, code: Code) {
        let index = Code::ALL.iter().position(|it| *it == code);
        if let Some(count) = index.and_then(|index| self.0.refused.get(index)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// How it is at the moment.
    pub fn seen(&self) -> Seen {
        let refused = Code::ALL.iter().zip(&self.0.refused);
        Seen {
            waiting: self.0.waiting.load(Relaxed),
            tick_age: clock::elapsed(*self.ticked()),
            refused: refused
                .map(|(code, count)| (*code, count.load(Relaxed)))
                .collect(),
        }
    }

    fn ticked(&self) -> std::sync::MutexGuard<'_, Instant> {
        self.0.ticked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.waiting.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_waits_until_its_turn_or_until_nobody_wants_it() {
        let workload = Workload::default();
        let (first, second) = (workload.wait(), workload.wait());
        assert_eq!(workload.seen().waiting, 2);
        drop(first);
        assert_eq!(workload.seen().waiting, 1);
        drop(second);
        assert_eq!(workload.seen().waiting, 0);
    }

    #[test]
    fn refusals_are_counted_by_code() {
        let workload = Workload::default();
        workload.refuse(Code::Protected);
        workload.refuse(Code::Protected);
        workload.refuse(Code::Other);
        let refused = workload.seen().refused;
        let counted: Vec<_> = refused.iter().filter(|(_, count)| *count > 0).collect();
        assert_eq!(counted, [&(Code::Protected, 2)]);
    }
}
