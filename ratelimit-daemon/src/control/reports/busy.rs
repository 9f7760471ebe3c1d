//! What the controller is busy with, as others see it while it does not answer.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::clock;
use jiff::{Timestamp, Unit};

/// What keeps the controller busy that nobody in particular asked for.
pub const OWN_WORK: &str = "the work of the daemon itself";

tokio::task_local! {
    static WHAT: Arc<str>;
}

/// Runs `task`; whoever waits for the controller learns that `what` keeps it busy.
pub async fn asked_as<F: Future>(what: impl Into<Arc<str>>, task: F) -> F::Output {
    WHAT.scope(what.into(), task).await
}

/// What the controller does at the moment.
#[derive(Clone, Debug, Default)]
pub struct Busy(Arc<Mutex<Option<BusyWith>>>);

/// What it has been busy with, and since when.
#[derive(Clone, Debug, PartialEq)]
pub struct BusyWith {
    what: Arc<str>,
    since: Timestamp,
    begun: Instant,
}

impl Busy {
    /// What the requests of this task are reported as.
    pub(crate) fn what() -> Arc<str> {
        WHAT.try_with(Arc::clone)
            .unwrap_or_else(|_| OWN_WORK.into())
    }

    /// Runs what the controller is asked for.
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

    /// What it does at the moment, if it does something.
    pub fn with(&self) -> Option<BusyWith> {
        let with = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        with.clone()
    }

    fn set(&self, with: Option<BusyWith>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = with;
    }
}

impl BusyWith {
    /// For how long.
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
