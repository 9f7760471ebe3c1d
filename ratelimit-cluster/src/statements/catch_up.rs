//! Catches up with missing statements of another node.
//!
//! Each report has a digest of all statements of its node. If it differs from the known statements
//! twice in a row, the stored parts are read. If that does not help, the node is asked to store the
//! parts that differ again (a store that failed over or was flushed has lost them), and they are
//! read again. Each try waits longer than the one before.

use crate::time::Millis;

/// The interval of the first tries: one second, so that after an outage of the store all is known
/// in 10 s.
const WAIT_FIRST: Millis = 1_000;
/// The interval for a lasting difference, such as more statements than are accepted from one node.
const WAIT_MOST: Millis = 60_000;
/// The number of tries with the short interval.
const QUICK: u32 = 5;

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Reads the stored parts.
    Fetch,
    /// Asks the node to store them again.
    Ask,
}

/// The progress with one node.
#[derive(Clone, Debug, Default)]
pub struct CatchUp {
    differs: u32,
    tries: u32,
    next: Millis,
    agreed: bool,
}

impl CatchUp {
    /// Records whether the known statements match the digest of the node at time `monotonic`.
    pub fn compared(&mut self, is_same: bool, monotonic: Millis) -> Option<Step> {
        if is_same {
            *self = Self {
                agreed: true,
                ..Self::default()
            };
            return None;
        }
        self.differs += 1;
        // A report may overtake statements that were sent before it.
        if self.differs < 2 || monotonic < self.next {
            return None;
        }
        let step = if self.tries.is_multiple_of(2) {
            Step::Fetch
        } else {
            Step::Ask
        };
        self.tries += 1;
        let doubled = WAIT_FIRST << self.tries.saturating_sub(QUICK).min(6);
        self.next = monotonic + doubled.min(WAIT_MOST);
        Some(step)
    }

    /// Returns whether the stored parts are read again after they were stored again. Statements
    /// missing then were withdrawn.
    pub fn is_second_reading(&self) -> bool {
        self.tries > 2
    }

    /// Returns whether the last comparison found no difference.
    pub fn agrees(&self) -> bool {
        self.agreed && self.differs == 0
    }

    /// Returns whether statements are missing.
    pub fn is_behind(&self) -> bool {
        self.differs >= 2
    }
}
