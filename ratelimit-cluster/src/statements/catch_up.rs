//! What a node does about statements of another one that it misses.
//!
//! Each report says what all statements of its node come to. Where what is held comes to something else twice in a row, the
//! stored parts are read. Where that did not help, the node is asked to store again what differs (a store that failed over or
//! was flushed has lost it), and they are read again. Each try waits longer than the one before.

use crate::time::Millis;

/// The first tries are a second apart, so that a store that came back has been caught up with in 10 s.
const WAIT_FIRST: Millis = 1_000;
/// Those of a difference that stays, such as more statements than are taken from one node.
const WAIT_MOST: Millis = 60_000;
/// How many tries come quickly.
const QUICK: u32 = 5;

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read the stored parts.
    Fetch,
    /// Ask the node to store them again.
    Ask,
}

/// How it stands with one node.
#[derive(Clone, Debug, Default)]
pub struct CatchUp {
    differs: u32,
    tries: u32,
    next: Millis,
    agreed: bool,
}

impl CatchUp {
    /// Takes in whether what is held is what the node says that it stated; `monotonic` is the time.
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

    /// Whether the stored parts were read, stored again, and are being read again: what is not in them then is stated no more.
    pub fn is_second_reading(&self) -> bool {
        self.tries > 2
    }

    /// Whether the last comparison found no difference.
    pub fn agrees(&self) -> bool {
        self.agreed && self.differs == 0
    }

    /// Whether statements are missing.
    pub fn is_behind(&self) -> bool {
        self.differs >= 2
    }
}
