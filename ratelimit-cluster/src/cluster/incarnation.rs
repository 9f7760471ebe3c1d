//! Which life of a node this is, and what ends a conflict about its name.
//!
//! Peers take messages of the highest incarnation that they know of a name, and of no lower one. Each start takes a higher one than
//! the last, by what was written down or by the wall clock. Where that is lost or wrong, a node learns from its stored parts, from
//! messages in its name and from peers that it is outdone. It takes a higher incarnation then. As long as another node sends in its
//! name, it waits: the one that started last is believed.

use super::Cluster;
use crate::key::Key;
use crate::message::OVERLAP;
use crate::time::{Millis, Now};

/// The incarnation of this node.
#[derive(Clone, Debug)]
pub(super) struct Incarnation {
    pub number: u64,
    /// When it began.
    pub since: Now,
    /// The highest other one that is known of this name, if it is above this one.
    above: Option<u64>,
    /// When a message of such a one came from the stream last, by the monotonic clock.
    rival_heard: Option<Millis>,
}

impl Incarnation {
    /// The one that follows another.
    pub fn after(last: u64, now: Now) -> Self {
        Self {
            number: last.saturating_add(1).max(now.wall.saturating_mul(1000)),
            since: now,
            above: None,
            rival_heard: None,
        }
    }

    /// Takes in that there is, or was, one of this name.
    pub fn learn(&mut self, number: u64) {
        if number > self.number {
            self.above = self.above.max(Some(number));
        }
    }

    /// Takes in that one above this one sends.
    pub fn hear_rival(&mut self, number: u64, monotonic: Millis) {
        self.learn(number);
        self.rival_heard = Some(monotonic);
    }
}

impl<K: Key> Cluster<K> {
    /// The incarnation of this node: higher with each start.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.number
    }

    /// Takes a higher incarnation where this one is outdone and nobody else sends in this node's name.
    pub(super) fn outdo(&mut self, now: Now) {
        let is_quiet = |heard| now.monotonic >= OVERLAP.saturating_add(heard);
        let is_free = self.incarnation.rival_heard.is_none_or(is_quiet);
        if let Some(above) = self.incarnation.above.filter(|_| is_free) {
            self.incarnation = Incarnation::after(above, now);
            // Nothing of the life before is believed, nor waited for.
            self.sent.clear();
            self.store_again();
        }
    }
}
