//! Times of a node: what its wall clock shows, what its monotonic clock shows, and stamps that order statements.

use serde::{Deserialize, Serialize};

/// A time or a length in milliseconds.
pub type Millis = u64;

/// What the two clocks of a host show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// The wall clock, since 1970. It may be wrong, and may be set.
    pub wall: Millis,
    /// The monotonic clock. Leases are measured by it.
    pub monotonic: Millis,
}

/// The order of statements: a hybrid logical clock in one word, in microseconds.
///
/// It follows the store's clock, and is above each stamp that its node has seen. So a statement that was made because of another
/// is later, whatever the clocks show (Kulkarni et al., "Logical Physical Clocks", OPODIS 2014).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize,
)]
pub struct Stamp(pub u64);

impl Stamp {
    /// The stamp that follows this one at the given time.
    pub fn next(self, time: Millis) -> Self {
        Self(self.0.saturating_add(1).max(time.saturating_mul(1000)))
    }

    /// The time that the stamp stands for.
    pub fn millis(self) -> Millis {
        self.0 / 1000
    }
}
