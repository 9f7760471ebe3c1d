//! Packets by what happened to them.

use ratelimit_common::Verdict;
use serde::Serialize;

/// Packets that passed, were dropped, and would have been dropped without the dry run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Tally {
    /// Packets that passed, except by a dry run.
    pub passed: u64,
    /// Dropped packets.
    pub dropped: u64,
    /// Packets that passed because of a dry run.
    pub observed: u64,
}

impl Tally {
    /// Counts a packet.
    pub fn count(&mut self, verdict: Verdict) {
        let counter = match verdict {
            Verdict::Pass(_) => &mut self.passed,
            Verdict::Drop(_) => &mut self.dropped,
            Verdict::Observe(_) => &mut self.observed,
        };
        *counter += 1;
    }

    /// Adds the packets of another tally.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.dropped += other.dropped;
        self.observed += other.observed;
    }

    /// Packets that are dropped, or would be.
    pub fn refused(&self) -> u64 {
        self.dropped + self.observed
    }

    /// All packets.
    pub fn packets(&self) -> u64 {
        self.passed + self.refused()
    }
}
