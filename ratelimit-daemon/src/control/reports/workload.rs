//! The load of the controller: its current work and the progress of an import, waiting requests,
//! the last run of its periodic work, and refused commands. It can be read while the controller is
//! busy.

use std::{
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use jiff::{Timestamp, Unit};
use ratelimit_core::api::Code;

use super::progress::Progress;
use crate::clock;

/// Work that no client asked for.
pub const OWN_WORK: &str = "the work of the daemon itself";

tokio::task_local! {
    static WHAT: Arc<str>;
}

/// Runs `task`; clients that wait for the controller see that `what` keeps it busy.
pub async fn asked_as<F: Future>(what: impl Into<Arc<str>>, task: F) -> F::Output {
    WHAT.scope(what.into(), task).await
}

/// Returns how requests of the current task are reported.
pub(crate) fn what() -> Arc<str> {
    WHAT.try_with(Arc::clone)
        .unwrap_or_else(|_| OWN_WORK.into())
}

/// The load. Clones share it.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The progress of an import.
    pub progress: Progress,
    figures: Arc<Figures>,
}

#[derive(Debug)]
struct Figures {
    busy: Mutex<Option<BusyWith>>,
    waiting: AtomicUsize,
    ticked: Mutex<Instant>,
    refused: [AtomicU64; Code::ALL.len()],
}

/// A piece of work and its start.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyWith {
    what: Arc<str>,
    since: Timestamp,
    begun: Instant,
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
        let figures = Figures {
            busy: Mutex::default(),
            waiting: AtomicUsize::default(),
            ticked: Mutex::new(clock::monotonic()),
            refused: Default::default(),
        };
        Self {
            progress: Progress::default(),
            figures: Arc::new(figures),
        }
    }
}

impl Workload {
    /// Runs a request, and shows it as the current work.
    pub(crate) fn during<T>(&self, what: Arc<str>, job: impl FnOnce() -> T) -> T {
        *lock(&self.figures.busy) = Some(BusyWith {
            what,
            since: clock::wall(),
            begun: clock::monotonic(),
        });
        let value = job();
        *lock(&self.figures.busy) = None;
        value
    }

    /// Returns the current work, if any.
    pub fn busy(&self) -> Option<BusyWith> {
        lock(&self.figures.busy).clone()
    }

    /// Counts a request until its turn.
    pub fn wait(&self) -> Waiting {
        self.figures.waiting.fetch_add(1, Relaxed);
        Waiting(self.clone())
    }

    /// Records that the periodic work was done.
    pub fn tick(&self) {
        *lock(&self.figures.ticked) = clock::monotonic();
    }

    /// Counts a refused command.
    pub fn refuse(&self, code: Code) {
        let index = Code::ALL.iter().position(|it| *it == code);
        if let Some(count) = index.and_then(|index| self.figures.refused.get(index)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Returns the current load.
    pub fn seen(&self) -> Seen {
        let refused = Code::ALL.iter().zip(&self.figures.refused);
        Seen {
            waiting: self.figures.waiting.load(Relaxed),
            tick_age: clock::elapsed(*lock(&self.figures.ticked)),
            refused: refused
                .map(|(code, count)| (*code, count.load(Relaxed)))
                .collect(),
        }
    }
}

fn lock<T>(figure: &Mutex<T>) -> MutexGuard<'_, T> {
    figure.lock().unwrap_or_else(PoisonError::into_inner)
}

impl BusyWith {
    /// Returns how long it has been running.
    pub fn lasts(&self) -> Duration {
        clock::elapsed(self.begun)
    }
}

impl fmt::Display for BusyWith {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, since, .. } = self;
        let since = since.round(Unit::Second).unwrap_or(*since);
        let seconds = self.lasts().as_secs();
        write!(formatter, "busy with {what} since {since} ({seconds} s)")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.figures.waiting.fetch_sub(1, Relaxed);
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
