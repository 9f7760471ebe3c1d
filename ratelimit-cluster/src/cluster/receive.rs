//! Processes received messages.

use std::collections::BTreeSet;

use smart_default::SmartDefault;

use super::{Cluster, Host, Outgoing};
use crate::budget::members::GONE_AFTER;
use crate::bytes::Wrong;
use crate::key::Key;
use crate::message::{
    Ask, Body, Header, MEMBERS_MAX, OVERLAP, Part, Refusal, Replay, Stated, open,
};
use crate::name::NodeName;
use crate::statements::{Statement, Step, Subject, part_of};
use crate::time::{Millis, Now};

/// The largest difference between the clocks of a node and the store.
const APART_MAX: Millis = 60_000;

/// The largest difference between the clocks of two nodes that are both within this limit.
pub(super) const AHEAD_MAX: Millis = 2 * APART_MAX;

/// The shortest time after which parts are stored again on request.
const ASKED_EVERY: Millis = 1_000;

/// The path by which a message arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The stream.
    Stream {
        /// The time.
        stored: Millis,
    },
    /// The stored parts, which may be read repeatedly.
    Stored,
}

/// The effects of a message.
#[derive(Clone, Debug, Eq, PartialEq, SmartDefault)]
pub struct Received<K> {
    /// Subjects that may have changed.
    pub changed: Vec<Subject<K>>,
    /// Statements that were not accepted, or have no effect here.
    pub denied: Vec<Denied<K>>,
}

/// A statement of a peer without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied<K> {
    /// The author.
    pub node: NodeName,
    /// The subject.
    pub subject: Subject<K>,
    /// The reason.
    pub why: &'static str,
}

impl<K: Key> Cluster<K> {
    /// Processes a message completely, or not at all.
    ///
    /// # Errors
    ///
    /// Returns why it is refused, with the node and a hint.
    pub fn receive(
        &mut self,
        now: Now,
        arrival: Arrival,
        message: &[u8],
        host: &impl Host<K>,
    ) -> Result<Received<K>, Refusal> {
        let (header, body) = open(&self.config.secret, message)?;
        if self.revoked.contains(&header.node) {
            return Err(Refusal::Revoked { node: header.node });
        }
        let body = Body::read(body).map_err(|wrong| Refusal::Malformed {
            node: header.node.clone(),
            wrong,
        })?;
        match (arrival, body) {
            (Arrival::Stored, Body::Part(part)) => {
                if header.node == self.config.node {
                    self.incarnation.learn(header.incarnation);
                }
                self.take_part(now, &header.node, part, host)
            }
            (Arrival::Stored, _) | (_, Body::Part(_)) => Err(Refusal::Malformed {
                node: header.node,
                wrong: Wrong::Value("the place of the message"),
            }),
            (Arrival::Stream { stored }, body) if header.node == self.config.node => {
                self.hear_myself(now, &header, stored, &body)
            }
            (Arrival::Stream { stored }, body) => {
                self.check_order(now, &header, stored)?;
                self.take_body(now, &header.node, stored, body, host)
            }
        }
    }

    /// A message of this node shows the store's time, and that this node reaches the others.
    fn hear_myself(
        &mut self,
        now: Now,
        header: &Header,
        stored: Millis,
        body: &Body<K>,
    ) -> Result<Received<K>, Refusal> {
        let own = &mut self.incarnation;
        if header.incarnation != own.number {
            let is_above = header.incarnation > own.number;
            if is_above {
                own.hear_rival(header.incarnation, now.monotonic);
            }
            let is_alive = is_above || header.sent > own.since.wall.saturating_add(OVERLAP);
            return if is_alive {
                Err(Refusal::TwoNodes {
                    node: header.node.clone(),
                })
            } else {
                Ok(Received::default())
            };
        }
        let clock = check_clock(header, stored);
        let place = self
            .sent
            .iter()
            .position(|(sequence, _)| *sequence == header.sequence);
        if let Some((_, sent)) = place.and_then(|place| self.sent.remove(place)) {
            self.clock.observe(sent, stored);
            if self.own_unread.is_some_and(|last| header.sequence > last) {
                self.own_unread = None;
            }
            // If the clocks differ, the other nodes refuse the message.
            if let Body::Report(report, _) = body
                && clock.is_ok()
            {
                self.budget.members_mut().heard(&header.node, report.view);
            }
        }
        clock.map(|()| Received::default())
    }

    fn check_order(&mut self, now: Now, header: &Header, stored: Millis) -> Result<(), Refusal> {
        check_clock(header, stored)?;
        if !self.peers.contains_key(&header.node) && self.peers.len() >= MEMBERS_MAX {
            let mut peers = self.peers.iter();
            let forgotten = peers.find(|(_, peer)| !peer.is_heard);
            let Some((forgotten, _)) = forgotten.map(|(name, peer)| (name.clone(), peer)) else {
                return Err(Refusal::TooMany {
                    node: header.node.clone(),
                    most: MEMBERS_MAX,
                });
            };
            self.peers.remove(&forgotten);
        }
        let peer = self.peers.entry(header.node.clone()).or_default();
        peer.is_heard = true;
        let Some(replay) = &mut peer.replay else {
            peer.replay = Some(Replay::new(header, stored));
            return Ok(());
        };
        let taken = replay.take(header, stored);
        let known = replay.seen().incarnation;
        let is_told = |told| now.monotonic < OVERLAP.saturating_add(told);
        if header.incarnation < known && !peer.told.is_some_and(is_told) {
            peer.told = Some(now.monotonic);
            self.publish(
                now,
                &Body::Outdone {
                    node: header.node.clone(),
                    incarnation: known,
                },
            );
        }
        taken
    }

    /// Records that a peer knows a later incarnation of a node.
    fn take_outdone(&mut self, now: Now, node: &NodeName, incarnation: u64) {
        if *node == self.config.node {
            self.incarnation.learn(incarnation);
        } else if let Some(peer) = self.peers.get_mut(node) {
            peer.told = Some(now.monotonic);
        }
    }

    fn take_body(
        &mut self,
        now: Now,
        node: &NodeName,
        stored: Millis,
        body: Body<K>,
        host: &impl Host<K>,
    ) -> Result<Received<K>, Refusal> {
        match body {
            Body::Report(report, stated) => {
                // An old message, read after an absence, does not show that its sender is alive.
                let recent = self.config.period.saturating_mul(GONE_AFTER.into());
                if self
                    .clock
                    .at(now.monotonic)
                    .is_some_and(|time| stored.saturating_add(recent) > time)
                {
                    self.budget.members_mut().heard(node, report.view);
                }
                self.compare(now, node, stated);
                let (context, limit) = (self.context(host), |key: &K| host.limit(key));
                self.budget
                    .take(node, report, context, limit)
                    .map(|()| Received::default())
            }
            Body::Statements(statements) => Ok(self.take_statements(
                now,
                node,
                stored.saturating_add(APART_MAX),
                &statements,
                host,
            )),
            Body::Ask(ask) => {
                self.be_asked(now, &ask);
                Ok(Received::default())
            }
            Body::Outdone { node, incarnation } => {
                self.take_outdone(now, &node, incarnation);
                Ok(Received::default())
            }
            Body::Part(_) => Ok(Received::default()),
        }
    }

    /// Compares the known statements of a node with its digest.
    fn compare(&mut self, now: Now, node: &NodeName, stated: Stated) {
        if stated.after > now.wall.saturating_add(AHEAD_MAX) {
            return;
        }
        let held = self.statements.digest(node, stated.after);
        let Some(peer) = self.peers.get_mut(node) else {
            return;
        };
        match peer.catch_up.compared(held == stated.digest, now.monotonic) {
            Some(Step::Fetch) => {
                peer.part_bits = stated.part_bits;
                self.outbox.push(Outgoing::Fetch {
                    node: node.clone(),
                    parts: 1 << stated.part_bits,
                });
            }
            Some(Step::Ask) => {
                let digests = self
                    .statements
                    .part_digests(node, stated.after, stated.part_bits);
                self.publish(
                    now,
                    &Body::Ask(Ask {
                        node: node.clone(),
                        after: stated.after,
                        digests,
                    }),
                );
            }
            None => {}
        }
    }

    /// A node misses statements of this one: parts that differ are stored again.
    fn be_asked(&mut self, now: Now, ask: &Ask) {
        if ask.node != self.config.node
            || self
                .asked
                .is_some_and(|asked| now.monotonic < asked + ASKED_EVERY)
        {
            return;
        }
        self.asked = Some(now.monotonic);
        self.parts_stored = None;
        let digests = self
            .statements
            .part_digests(&self.config.node, ask.after, self.parts.bits());
        if digests.len() != ask.digests.len() {
            self.parts.all();
            return;
        }
        let differs = digests
            .iter()
            .zip(&ask.digests)
            .enumerate()
            .filter(|(_, (stated, held))| stated != held);
        differs
            .filter_map(|(part, _)| u16::try_from(part).ok())
            .for_each(|part| self.parts.again(part));
    }

    fn take_part(
        &mut self,
        now: Now,
        node: &NodeName,
        part: Part<K>,
        host: &impl Host<K>,
    ) -> Result<Received<K>, Refusal> {
        if part
            .statements
            .iter()
            .any(|statement| part_of(&statement.subject, part.bits) != part.index)
        {
            return Err(Refusal::Malformed {
                node: node.clone(),
                wrong: Wrong::Value("the part of a statement"),
            });
        }
        if *node == self.config.node {
            if part.bits > self.own_bits {
                self.own_bits = part.bits;
                self.fetch_own();
            }
            // Statements of earlier incarnations still belong to this node.
            part.statements
                .iter()
                .for_each(|statement| self.hold_own(statement));
            let mut changed: Vec<_> = part
                .statements
                .into_iter()
                .map(|statement| statement.subject)
                .collect();
            changed.extend(self.judge_nodes(now.wall));
            return Ok(Received {
                changed,
                ..Received::default()
            });
        }
        if let Some(peer) = self.peers.get_mut(node)
            && part.bits > peer.part_bits
        {
            peer.part_bits = part.bits;
            self.outbox.push(Outgoing::Fetch {
                node: node.clone(),
                parts: 1 << part.bits,
            });
        }
        let received = self.take_statements(
            now,
            node,
            now.wall.saturating_add(AHEAD_MAX),
            &part.statements,
            host,
        );
        if self
            .peers
            .get(node)
            .is_some_and(|peer| peer.catch_up.is_second_reading())
        {
            let stated: BTreeSet<_> = part
                .statements
                .iter()
                .map(|statement| (&statement.subject, statement.verb))
                .collect();
            let is_gone = |subject: &Subject<K>, verb| {
                part_of(subject, part.bits) == part.index && !stated.contains(&(subject, verb))
            };
            self.statements.unconfirm(node, part.at, is_gone);
        }
        Ok(received)
    }

    /// Processes the statements of a peer, up to a stamp of the time `latest`.
    fn take_statements(
        &mut self,
        now: Now,
        node: &NodeName,
        latest: Millis,
        statements: &[Statement<K>],
        host: &impl Host<K>,
    ) -> Received<K> {
        let mut received = Received::default();
        for statement in statements {
            let subject = statement.subject.clone();
            if let Err(why) = self.check_bounds(now, node, latest, statement) {
                let node = node.clone();
                received.denied.push(Denied { node, subject, why });
                continue;
            }
            self.stamp = self.stamp.max(statement.stamp);
            if let Subject::Node(name) = &subject {
                self.stated_nodes.insert(name.clone());
            }
            if self.statements.merge(node, statement) {
                if let Err(why) = host.permits(&subject) {
                    received.denied.push(Denied {
                        node: node.clone(),
                        subject: subject.clone(),
                        why,
                    });
                }
                received.changed.push(subject);
            }
        }
        if received
            .changed
            .iter()
            .any(|subject| matches!(subject, Subject::Node(_)))
        {
            let of_revoked = self.judge_nodes(now.wall);
            received.changed.extend(of_revoked);
        }
        received
    }

    fn check_bounds(
        &mut self,
        now: Now,
        node: &NodeName,
        latest: Millis,
        statement: &Statement<K>,
    ) -> Result<(), &'static str> {
        let bounds = self.config.bounds;
        if statement.stamp.millis() > latest {
            return Err("its timestamp is more than a minute ahead");
        }
        if !self.statements.would_change(node, statement) {
            return Ok(());
        }
        if self.statements.count(node) >= bounds.held {
            return Err("its node has the maximum number of entries");
        }
        let peer = self.peers.entry(node.clone()).or_default();
        if peer.bucket.take(&bounds, now.monotonic) {
            Ok(())
        } else {
            Err("its node exceeds the number of entries per minute")
        }
    }
}

/// The clocks of the sender and of the store must agree. This also refuses old messages that were
/// stored again.
fn check_clock(header: &Header, stored: Millis) -> Result<(), Refusal> {
    let apart = header.sent.abs_diff(stored);
    if apart > APART_MAX {
        Err(Refusal::ClockApart {
            node: header.node.clone(),
            apart,
        })
    } else {
        Ok(())
    }
}
