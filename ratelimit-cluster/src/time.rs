//! Times of a node: its wall clock, its monotonic clock, and stamps that order statements.

use serde::{Deserialize, Serialize};

/// A time or a duration in milliseconds.
pub type Millis = u64;

/// The readings of a host's clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, since 1970. It may be wrong, and may be set.
    pub wall: Millis,
    /// The monotonic clock, for leases.
    pub monotonic: Millis,
}

/// Orders statements: a hybrid logical clock in one word, in microseconds.
///
/// It follows the store's clock, and is above each stamp that its node has seen. So a statement
/// that was caused by another is later, whatever the clocks show (Kulkarni et al., "Logical
/// Physical Clocks", OPODIS 2014).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
pub struct Stamp(pub u64);

impl Stamp {
    /// Returns the stamp after this one at the given time.
    pub fn next(self, time: Millis) -> Self {
        Self(self.0.saturating_add(1).max(time.saturating_mul(1000)))
    }

    /// Returns the time of the stamp.
    pub fn millis(self) -> Millis {
        self.0 / 1000
    }
}
