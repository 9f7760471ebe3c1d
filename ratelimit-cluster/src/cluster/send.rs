//! Creates messages.

use std::collections::BTreeMap;

use super::{Cluster, Host};
use crate::key::Key;
use crate::message::{Body, Header, Part, STATEMENTS_MAX, Stated, seal};
use crate::name::NodeName;
use crate::statements::{Statement, part_of};
use crate::time::{Millis, Now};

/// The shortest time between writes of changed parts, unless a node asks for them.
const STORE_EVERY: Millis = 2_000;

/// The most own messages in transit. For older ones, the time of sending is forgotten.
const ON_THE_WAY: usize = 64;

/// An operation on the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outgoing {
    /// Appends a message to the stream.
    Publish(Vec<u8>),
    /// Stores a part of this node's statements, replacing the previous version.
    Store {
        /// The index of the part.
        part: u16,
        /// The lifetime of its statements.
        lasts: Millis,
        /// The message.
        message: Vec<u8>,
    },
    /// Reads all parts that a node stored. Pass them to [`Cluster::receive`].
    Fetch {
        /// The author of the parts.
        node: NodeName,
        /// The number of parts.
        parts: u16,
    },
}

impl<K: Key> Cluster<K> {
    /// Returns the operations that are due. Call it several times in each period, and soon after a
    /// statement of this node.
    pub fn due(&mut self, now: Now, host: &mut impl Host<K>) -> Vec<Outgoing> {
        self.outdo(now);
        self.restamp(now);
        self.send_statements(now);
        self.end_period(now, host);
        let is_due = |stored| now.monotonic >= stored + STORE_EVERY;
        if self.own_unread.is_none() && self.parts_stored.is_none_or(is_due) {
            self.store_parts(now);
        }
        core::mem::take(&mut self.outbox)
    }

    /// Reads the stored parts of this node, of which it may have lost the statements.
    pub(super) fn fetch_own(&mut self) {
        self.outbox.push(Outgoing::Fetch {
            node: self.config.node.clone(),
            parts: 1 << self.own_bits,
        });
        self.own_unread = Some(self.sequence);
    }

    /// Reads the stored parts of all known nodes: one that is gone may have lifted something.
    pub(super) fn fetch_known(&mut self) {
        self.fetch_own();
        let peers = self.peers.iter().map(|(name, peer)| Outgoing::Fetch {
            node: name.clone(),
            parts: 1 << peer.part_bits,
        });
        self.outbox.extend(peers);
    }

    fn send_statements(&mut self, now: Now) {
        let unsent = core::mem::take(&mut self.unsent);
        for statements in unsent.chunks(STATEMENTS_MAX) {
            self.publish(now, &Body::Statements(statements.to_vec()));
        }
    }

    /// Returns a hash of the settings that nodes must share to divide limits.
    pub(super) fn context(&self, host: &impl Host<K>) -> u64 {
        host.limits() ^ self.config.period.rotate_left(32)
    }

    fn end_period(&mut self, now: Now, host: &mut impl Host<K>) {
        let time = self.clock.at(now.monotonic);
        let is_new = time.is_some_and(|time| self.budget.is_over(time));
        let mut report = None;
        if let Some(time) = time.filter(|_| is_new) {
            let context = self.context(host);
            let counts = host.counts();
            let (limit, held) = (
                |key: &K| host.limit(key),
                |key: &K, later| host.held(key, later),
            );
            let monotonic = now.monotonic;
            report = self
                .budget
                .advance(time, monotonic, context, limit, held, counts);
            self.statements.forget_ended(now.wall);
            self.judge_nodes(now.wall);
        }
        if let Some(report) = report {
            let digest = self.statements.digest(&self.config.node, now.wall);
            let stated = Stated {
                after: now.wall,
                digest,
                part_bits: self.parts.bits(),
            };
            self.publish(now, &Body::Report(report, stated));
        } else if is_new
            || (time.is_none()
                && self
                    .hello
                    .is_none_or(|hello| now.monotonic >= hello + self.config.period))
        {
            // An empty message, to learn the store's time.
            self.hello = Some(now.monotonic);
            self.publish(now, &Body::Statements(Vec::new()));
        }
    }

    fn store_parts(&mut self, now: Now) {
        let parts = self.parts.take();
        if parts.is_empty() {
            return;
        }
        self.parts_stored = Some(now.monotonic);
        // A part implies that everything else was withdrawn, even if this node has forgotten its
        // statements.
        self.stamp = self
            .stamp
            .next(self.clock.at(now.monotonic).unwrap_or(now.wall));
        let bits = self.parts.bits();
        let mut contents: BTreeMap<u16, Vec<Statement<K>>> =
            parts.into_iter().map(|part| (part, Vec::new())).collect();
        for (statement, _) in self.statements.of_author(&self.config.node, now.wall) {
            if let Some(content) = contents.get_mut(&part_of(&statement.subject, bits)) {
                content.push(statement);
            }
        }
        for (index, mut statements) in contents {
            // Hashing distributes statements over the parts, about 512 in each.
            statements.truncate(STATEMENTS_MAX);
            let ends = statements.iter().map(|statement| statement.until);
            let lasts = ends.max().unwrap_or_default().saturating_sub(now.wall);
            let message = self.sealed(
                now,
                &Body::Part(Part {
                    index,
                    bits,
                    at: self.stamp,
                    statements,
                }),
            );
            self.outbox.push(Outgoing::Store {
                part: index,
                lasts,
                message,
            });
        }
    }

    pub(super) fn publish(&mut self, now: Now, body: &Body<K>) {
        let message = self.sealed(now, body);
        self.sent.push_back((self.sequence, now.monotonic));
        if self.sent.len() > ON_THE_WAY {
            self.sent.pop_front();
        }
        self.outbox.push(Outgoing::Publish(message));
    }

    fn sealed(&mut self, now: Now, body: &Body<K>) -> Vec<u8> {
        self.sequence += 1;
        let header = Header {
            node: self.config.node.clone(),
            incarnation: self.incarnation.number,
            sequence: self.sequence,
            sent: now.wall,
        };
        seal(&self.config.secret, &header, &body.write())
    }
}
