//! The load of the controller: waiting requests, the last run of its periodic work, and refused
//! commands. It can be read while the controller is busy.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::clock;
use ratelimit_core::api::Code;

/// The load. Clones share it.
#[derive(Clone, Debug)]
pub struct Workload(Arc<Figures>);

#[derive(Debug)]
struct Figures {
    waiting: AtomicUsize,
    ticked: Mutex<Instant>,
    refused: [AtomicU64; Code::ALL.len()],
}

/// A waiting request. Dropping it ends the wait.
pub struct Waiting(Workload);

/// The load at one point in time.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Requests that wait for their turn.
    pub waiting: usize,
    /// The time since the last periodic work.
    pub tick_age: Duration,
    /// Refused commands, by code.
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
    /// Counts a request until its turn.
    pub fn wait(&self) -> Waiting {
        self.0.waiting.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }

    /// Records that the periodic work was done.
    pub fn tick(&self) {
        *self.ticked() = clock::monotonic();
    }

    /// Counts a refused command.
    pub fn refuse(&self, code: Code) {
        let index = Code::ALL.iter().position(|it| *it == code);
        if let Some(count) = index.and_then(|index| self.0.refused.get(index)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the current load.
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
