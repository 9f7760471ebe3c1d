//! The current work of the controller, shown to clients that wait for it.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::clock;
use jiff::{Timestamp, Unit};

/// Work that no client asked for.
pub const OWN_WORK: &str = "the work of the daemon itself";

tokio::task_local! {
    static WHAT: Arc<str>;
}

/// Runs `task`; clients that wait for the controller see that `what` keeps it busy.
pub async fn asked_as<F: Future>(what: impl Into<Arc<str>>, task: F) -> F::Output {
    WHAT.scope(what.into(), task).await
}

/// The current work of the controller.
#[derive(Clone, Debug, Default)]
pub struct Busy(Arc<Mutex<Option<BusyWith>>>);

/// A piece of work, and since when it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyWith {
    what: Arc<str>,
    since: Timestamp,
    begun: Instant,
}

impl Busy {
    /// Returns how requests of the current task are reported.
    pub(crate) fn what() -> Arc<str> {
        WHAT.try_with(Arc::clone)
            .unwrap_or_else(|_| OWN_WORK.into())
    }

    /// Runs a request, and shows it as the current work.
    pub(crate) fn during<T>(&self, what: Arc<str>, job: impl FnOnce() -> T) -> T {
        let with = BusyWith {
            what,
            since: clock::wall(),
            begun: clock::monotonic(),
        };
        self.set(Some(with));
        let value = job();
        self.set(None);
        value
    }

    /// Returns the current work, if any.
    pub fn with(&self) -> Option<BusyWith> {
        let with = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        with.clone()
    }

    fn set(&self, with: Option<BusyWith>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = with;
    }
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
