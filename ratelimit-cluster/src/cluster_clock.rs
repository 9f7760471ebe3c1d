//! The clock that nodes have in common: that of the store, learned from a node's own messages.
//!
//! The store writes its time beside each message (the id of an entry in a Redis stream begins with
//! it). A node reads its own messages back, so it knows how far its monotonic clock is from the
//! store's, as exactly as a message takes to get there. A wall clock that is set or wrong does not
//! matter. Nothing that must hold depends on it either: with a wrong clock a node misses reports,
//! and shares then fall.

use crate::time::Millis;

/// The number of own messages that are remembered.
const SAMPLES: usize = 9;

/// The offset from a monotonic clock to the store's.
#[derive(Clone, Debug, Default)]
pub struct ClusterClock {
    samples: Vec<i64>,
    next: usize,
    offset: i64,
}

impl ClusterClock {
    /// Takes in that a message sent at a time of this host's monotonic clock was stored at a time
    /// of the store's.
    pub fn observe(&mut self, sent: Millis, stored: Millis) {
        let apart = stored.cast_signed().saturating_sub(sent.cast_signed());
        if self.samples.len() < SAMPLES {
            self.samples.push(apart);
        } else if let Some(oldest) = self.samples.get_mut(self.next) {
            *oldest = apart;
        }
        self.next = (self.next + 1) % SAMPLES;
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        // A message that waited long looks like a clock that is far behind: the median passes over
        // few of them.
        self.offset = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    }

    /// The time of the store at a time of this host's monotonic clock, once it is known.
    pub fn at(&self, monotonic: Millis) -> Option<Millis> {
        (!self.samples.is_empty()).then(|| monotonic.saturating_add_signed(self.offset))
    }
}
