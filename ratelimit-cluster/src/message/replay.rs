//! Detects replayed messages with a window over sequence numbers for each incarnation of a node (as
//! in RFC 6479).

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use super::seal::Header;
use crate::time::Millis;

/// Sequence numbers this far behind the highest are tracked.
pub const WINDOW: u64 = 1024;

/// The time after the start of an incarnation in which messages of the previous one may arrive.
pub const OVERLAP: Millis = 10_000;

/// The last messages heard from a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Seen {
    /// The incarnation.
    pub incarnation: u64,
    /// The time at which its first message was stored.
    pub since: Millis,
    /// The highest sequence number.
    pub highest: u64,
}

/// The messages seen from one node.
#[derive(Clone, Debug)]
pub struct Replay {
    upto: Seen,
    seen: [u64; (WINDOW / 64) as usize],
}

impl Replay {
    /// Starts with the first message of a node, stored at the given time.
    pub fn new(header: &Header, stored: Millis) -> Self {
        let mut new = Self {
            upto: Seen {
                incarnation: header.incarnation,
                since: stored,
                highest: header.sequence,
            },
            seen: [0; (WINDOW / 64) as usize],
        };
        new.mark(header.sequence);
        new
    }

    /// Continues after a restart. Messages that may have been seen before are refused.
    pub fn resumed(upto: Seen) -> Self {
        Self {
            upto,
            seen: [u64::MAX; (WINDOW / 64) as usize],
        }
    }

    /// Returns the last message heard from the node.
    pub fn seen(&self) -> Seen {
        self.upto
    }

    /// Accepts each message once.
    ///
    /// # Errors
    ///
    /// If it was already seen, is too old to decide, or belongs to another incarnation.
    pub fn take(&mut self, header: &Header, stored: Millis) -> Result<(), Refusal> {
        let node = || header.node.clone();
        if header.incarnation > self.upto.incarnation {
            *self = Self::new(header, stored);
            return Ok(());
        }
        if header.incarnation < self.upto.incarnation {
            let is_alive = stored > self.upto.since.saturating_add(OVERLAP)
                && header.sent > self.upto.since.saturating_add(OVERLAP);
            return Err(if is_alive {
                Refusal::TwoNodes { node: node() }
            } else {
                Refusal::Outlived { node: node() }
            });
        }
        let replayed = Refusal::Replayed {
            node: node(),
            sequence: header.sequence,
        };
        if header.sequence > self.upto.highest {
            self.forget_up_to(header.sequence);
        } else if self.upto.highest - header.sequence >= WINDOW || self.is_seen(header.sequence) {
            return Err(replayed);
        }
        self.mark(header.sequence);
        Ok(())
    }

    fn forget_up_to(&mut self, sequence: u64) {
        if sequence - self.upto.highest >= WINDOW {
            self.seen = [0; (WINDOW / 64) as usize];
        } else {
            for number in self.upto.highest + 1..=sequence {
                let (word, bit) = place(number);
                if let Some(word) = self.seen.get_mut(word) {
                    *word &= !bit;
                }
            }
        }
        self.upto.highest = sequence;
    }

    fn is_seen(&self, sequence: u64) -> bool {
        let (word, bit) = place(sequence);
        self.seen.get(word).is_some_and(|word| word & bit != 0)
    }

    fn mark(&mut self, sequence: u64) {
        let (word, bit) = place(sequence);
        if let Some(word) = self.seen.get_mut(word) {
            *word |= bit;
        }
    }
}

/// Returns the word and the bit of a sequence number.
fn place(sequence: u64) -> (usize, u64) {
    let slot = sequence % WINDOW;
    // Below 1024, so it fits.
    (
        usize::try_from(slot / 64).unwrap_or_default(),
        1 << (slot % 64),
    )
}
