//! Which messages of a node were seen: a window over sequence numbers, for each life of the node (as in RFC 6479).

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use super::seal::Header;
use crate::time::Millis;

/// How many numbers behind the highest are still told apart.
pub const WINDOW: u64 = 1024;

/// So long messages of a life may still come after the next one began.
pub const OVERLAP: Millis = 10_000;

/// Up to which message a node was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Seen {
    /// Of which life.
    pub incarnation: u64,
    /// When its first message was stored.
    pub since: Millis,
    /// The highest number that was seen of it.
    pub highest: u64,
}

/// What was seen of one node.
#[derive(Clone, Debug)]
pub struct Replay {
    upto: Seen,
    seen: [u64; (WINDOW / 64) as usize],
}

impl Replay {
    /// Begins with the first message of a node that was stored at the given time.
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

    /// Goes on after a restart: what may have been seen before it is not taken again.
    pub fn resumed(upto: Seen) -> Self {
        Self {
            upto,
            seen: [u64::MAX; (WINDOW / 64) as usize],
        }
    }

    /// Up to which message the node was heard.
    pub fn seen(&self) -> Seen {
        self.upto
    }

    /// Takes a message once.
    ///
    /// # Errors
    /// It was seen, is too old to tell, or is of another life than the last.
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

/// The word and the bit of a sequence number.
fn place(sequence: u64) -> (usize, u64) {
    let slot = sequence % WINDOW;
    // Below 1024, so it fits.
    (
        usize::try_from(slot / 64).unwrap_or_default(),
        1 << (slot % 64),
    )
}
