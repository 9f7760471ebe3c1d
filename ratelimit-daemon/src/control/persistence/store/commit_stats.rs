//! Statistics of commits: their durations, and the number of refused changes.

use std::time::Instant;

use crate::clock;
use ratelimit_core::histogram::Histogram;

/// The outcomes of transactions since the database was opened.
#[derive(Clone, Debug, Default)]
pub struct Commits {
    /// The durations of the committed transactions.
    pub took: Histogram,
    /// The number of failed transactions.
    pub failed: u64,
}

impl Commits {
    /// A transaction was kept, whose commit began then.
    pub fn kept(&mut self, begun: Instant) {
        self.took.observe(clock::elapsed(begun));
    }

    /// Notes how a change went.
    pub fn note<T>(&mut self, answer: &anyhow::Result<T>) {
        self.failed += u64::from(answer.is_err());
    }
}
