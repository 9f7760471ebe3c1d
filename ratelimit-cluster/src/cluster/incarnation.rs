//! The incarnation of a node, and how conflicts about its name end.
//!
//! Peers accept messages only of the highest incarnation known for a name. Each start takes a
//! higher one than the last, from the saved state or the wall clock. If that is lost or wrong, a
//! node learns that it is outdone from its stored parts, from messages in its name, or from peers.
//! It then takes a higher incarnation. While another node sends in its name, it waits: the node
//! that started last wins.

use super::Cluster;
use crate::key::Key;
use crate::message::OVERLAP;
use crate::time::{Millis, Now};

#[derive(Clone, Debug)]
pub(super) struct Incarnation {
    pub number: u64,
    /// The start of the incarnation.
    pub since: Now,
    /// The highest other incarnation known for this name, if it is higher.
    above: Option<u64>,
    /// The time of the last message of a higher incarnation by the stream, on the monotonic clock.
    rival_heard: Option<Millis>,
}

impl Incarnation {
    /// Returns the incarnation after another.
    pub fn after(last: u64, now: Now) -> Self {
        Self {
            number: last.saturating_add(1).max(now.wall.saturating_mul(1000)),
            since: now,
            above: None,
            rival_heard: None,
        }
    }

    /// Records that an incarnation of this name exists or existed.
    pub fn learn(&mut self, number: u64) {
        if number > self.number {
            self.above = self.above.max(Some(number));
        }
    }

    /// Records that a higher incarnation sends.
    pub fn hear_rival(&mut self, number: u64, monotonic: Millis) {
        self.learn(number);
        self.rival_heard = Some(monotonic);
    }
}

impl<K: Key> Cluster<K> {
    /// Returns the incarnation of this node: higher with each start.
    pub fn incarnation(&self) -> u64 {
        self.incarnation.number
    }

    /// Takes a higher incarnation if this one is outdone and no other node sends in this node's
    /// name.
    pub(super) fn outdo(&mut self, now: Now) {
        let is_quiet = |heard| now.monotonic >= OVERLAP.saturating_add(heard);
        let is_free = self.incarnation.rival_heard.is_none_or(is_quiet);
        if let Some(above) = self.incarnation.above.filter(|_| is_free) {
            self.incarnation = Incarnation::after(above, now);
            // Messages of the previous incarnation are neither trusted nor awaited.
            self.sent.clear();
            self.store_again();
        }
    }
}
