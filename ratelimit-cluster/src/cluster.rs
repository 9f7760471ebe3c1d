//! A node of a cluster: messages in and out, statements in force, and shares.

mod incarnation;
mod memory;
mod peer;
mod receive;
mod send;

pub use memory::Memory;
use receive::AHEAD_MAX;
pub use receive::{Arrival, Denied, Received};
pub use send::Outgoing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::budget::{Budget, Count, Limit, WindowUsage};
use crate::cluster_clock::ClusterClock;
use crate::key::Key;
use crate::message::Secret;
use crate::name::NodeName;
use crate::statements::{Bounds, Guard, InForce, Parts, Statement, StatementSet, Subject, Verb};
use crate::time::{Millis, Now, Stamp};
use incarnation::Incarnation;
use peer::Peer;

/// The configuration of a node.
#[derive(Clone)]
pub struct Config {
    /// The name of the node.
    pub node: NodeName,
    /// The shared secret of the cluster.
    pub secret: Secret,
    /// The length of a period, the same on all nodes.
    pub period: Millis,
    /// The bounds for statements of a peer.
    pub bounds: Bounds,
}

/// The interface of the host that a node runs on.
pub trait Host<K>: Guard<K> {
    /// Returns the shared limit of a key, if there is one.
    fn limit(&self, key: &K) -> Option<Limit>;

    /// Returns a hash of all shared limits. Nodes with different hashes do not divide limits with
    /// each other.
    fn limits(&self) -> u64;

    /// Returns the counts since the last call, for keys that need more than half of the node's
    /// share.
    fn counts(&mut self) -> Vec<Count<K>>;

    /// Returns the usage of a key's windows from now until `later` milliseconds from now.
    fn held(&self, key: &K, later: Millis) -> WindowUsage;
}

/// One node of a cluster.
pub struct Cluster<K> {
    config: Config,
    incarnation: Incarnation,
    sequence: u64,
    /// The sequence numbers of the last messages of this node, and the times at which they were
    /// sent, by the monotonic clock.
    sent: VecDeque<(u64, Millis)>,
    clock: ClusterClock,
    peers: BTreeMap<NodeName, Peer>,
    statements: StatementSet<K>,
    stamp: Stamp,
    /// Statements of this node that were not sent yet.
    unsent: Vec<Statement<K>>,
    parts: Parts,
    parts_stored: Option<Millis>,
    /// The number of own parts in the store is 2 to this power, as far as is known.
    own_bits: u8,
    /// Own parts were not read yet: they are requested before the message after this sequence
    /// number. Until it returns, none are stored, as that would replace unread ones.
    own_unread: Option<u64>,
    asked: Option<Millis>,
    /// Nodes with statements about them, and the revoked ones among them.
    stated_nodes: BTreeSet<NodeName>,
    revoked: BTreeSet<NodeName>,
    budget: Budget<K>,
    hello: Option<Millis>,
    outbox: Vec<Outgoing>,
}

impl<K: Key> Cluster<K> {
    /// Starts with the memory from the last run.
    pub fn new(config: Config, now: Now, memory: Memory<K>) -> Self {
        let budget = Budget::new(
            config.node.clone(),
            config.period.max(1),
            memory.views,
            memory.shares,
            memory.divided_by,
        );
        let mut new = Self {
            incarnation: Incarnation::after(memory.incarnation, now),
            sequence: 0,
            sent: VecDeque::new(),
            clock: ClusterClock::default(),
            peers: BTreeMap::new(),
            statements: StatementSet::default(),
            stamp: Stamp::default(),
            unsent: Vec::new(),
            parts: Parts::default(),
            parts_stored: None,
            own_bits: 0,
            own_unread: None,
            asked: None,
            stated_nodes: BTreeSet::new(),
            revoked: BTreeSet::new(),
            budget,
            hello: None,
            outbox: Vec::new(),
            config,
        };
        memory
            .statements
            .iter()
            .for_each(|statement| new.hold_own(statement));
        new.recall(memory.ended, memory.peers);
        new.fetch_known();
        new
    }

    /// Returns the time of the store, once it is known.
    pub fn store_time(&self, monotonic: Millis) -> Option<Millis> {
        self.clock.at(monotonic)
    }

    /// Returns the name of this node.
    pub fn name(&self) -> &NodeName {
        &self.config.node
    }

    /// States something until an end. An earlier statement of this node that ends later stays.
    pub fn say(&mut self, now: Now, subject: Subject<K>, until: Millis, why: &str) {
        let until = self.own_end(now, &subject).unwrap_or_default().max(until);
        self.state(now, subject, Verb::Says, until, why);
    }

    /// Lifts all known statements about a subject. Returns whether there were any.
    pub fn lift(&mut self, now: Now, subject: Subject<K>, why: &str) -> bool {
        self.lift_to(now, subject, None, why)
    }

    /// Also lifts statements that were not heard yet and end by then. Returns whether there were
    /// any.
    pub fn lift_to(
        &mut self,
        now: Now,
        subject: Subject<K>,
        end: Option<Millis>,
        why: &str,
    ) -> bool {
        let Some(until) = self.statements.latest_end(&subject).max(end) else {
            return false;
        };
        self.state(now, subject, Verb::Lifts, until.max(now.wall), why);
        true
    }

    /// Withdraws this node's own statements about a subject; those of others stay. Returns whether
    /// there were any.
    pub fn withdraw(&mut self, now: Now, subject: Subject<K>, why: &str) -> bool {
        let is_stated = self.own_end(now, &subject).is_some();
        if is_stated {
            self.state(now, subject, Verb::Says, now.wall, why);
        }
        is_stated
    }

    /// Returns the end of this node's own statement, if no node has lifted it.
    pub fn own_end(&self, now: Now, subject: &Subject<K>) -> Option<Millis> {
        let counts = |node: &NodeName| !self.revoked.contains(node);
        let mut authors_in_force = self.statements.authors_in_force(subject, now.wall, counts);
        let own = authors_in_force.find(|(node, _)| **node == self.config.node);
        own.map(|(_, until)| until)
    }

    /// Returns the node that lifted a statement of this node before its end.
    pub fn lifted_by(&self, now: Now, subject: &Subject<K>) -> Option<NodeName> {
        let counts = |node: &NodeName| !self.revoked.contains(node);
        self.statements
            .lifter(&self.config.node, subject, now.wall, counts)
    }

    /// Lifts a statement of this node that another one lifted, so that no restart restores it, even
    /// if the other node is gone. Returns whether there was one.
    pub fn lift_as_others(&mut self, now: Now, subject: &Subject<K>) -> bool {
        let (me, counts) = (&self.config.node, |node: &NodeName| {
            !self.revoked.contains(node)
        });
        let lift = self
            .statements
            .lift_by_others(me, subject, now.wall, counts);
        if let Some(lift) = &lift {
            self.hold_own(lift);
            self.unsent.push(lift.clone());
        }
        lift.is_some()
    }

    /// Returns whether all statements of a node are known here: it reported so, or none of them
    /// counts.
    pub fn agrees_with(&self, node: &NodeName) -> bool {
        let peer = self.peers.get(node);
        self.revoked.contains(node) || peer.is_some_and(|peer| peer.catch_up.agrees())
    }

    /// Returns whether this node has a statement of a node about a subject.
    pub fn holds(&self, node: &NodeName, subject: &Subject<K>) -> bool {
        self.statements.holds(node, subject)
    }

    /// Stores all statements of this node again, because the store may have lost them.
    pub fn store_again(&mut self) {
        self.parts_stored = None;
        self.parts.all();
        if self.own_unread.is_some() {
            // The requests may not have reached the store.
            self.fetch_known();
        }
    }

    /// Returns the nodes heard since the start.
    pub fn peers(&self) -> impl Iterator<Item = &NodeName> {
        let heard = self.peers.iter().filter(|(_, peer)| peer.is_heard);
        heard.map(|(name, _)| name)
    }

    fn state(&mut self, now: Now, subject: Subject<K>, verb: Verb, until: Millis, why: &str) {
        // The store's clock, if it is known: a host with a fast wall clock would otherwise lift
        // later statements of others.
        self.stamp = self
            .stamp
            .next(self.clock.at(now.monotonic).unwrap_or(now.wall));
        let statement = Statement {
            note: subject.note(why),
            subject,
            verb,
            stamp: self.stamp,
            until,
        };
        self.hold_own(&statement);
        self.unsent.push(statement);
        self.judge_nodes(now.wall);
    }

    /// Replaces the stamps of own statements that peers would refuse: they are from before the
    /// store's time was known, while the wall clock was ahead.
    fn restamp(&mut self, now: Now) {
        let Some(time) = self.clock.at(now.monotonic) else {
            return;
        };
        let latest = time.saturating_add(AHEAD_MAX);
        if self.stamp.millis() <= latest {
            return;
        }
        let mut stamp = self.statements.latest_stamp(latest);
        let restamped = self.statements.restamp(&self.config.node, latest, || {
            stamp = stamp.next(time);
            stamp
        });
        self.stamp = stamp;
        for statement in restamped {
            self.hold_own(&statement);
            self.unsent.push(statement);
        }
    }

    fn hold_own(&mut self, statement: &Statement<K>) {
        self.statements.merge(&self.config.node, statement);
        self.stamp = self.stamp.max(statement.stamp);
        self.parts
            .changed(&statement.subject, self.statements.count(&self.config.node));
        if let Subject::Node(name) = &statement.subject {
            self.stated_nodes.insert(name.clone());
        }
    }

    /// Returns what is in force about a subject. If this host does not permit it to peers, only its
    /// own statements count.
    pub fn in_force(
        &self,
        now: Now,
        subject: &Subject<K>,
        guard: &impl Guard<K>,
    ) -> Option<InForce> {
        let is_permitted = guard.permits(subject).is_ok();
        let counts = |node: &NodeName| {
            *node == self.config.node || (is_permitted && !self.revoked.contains(node))
        };
        self.statements
            .in_force(subject, now.wall, counts, |node| self.longest(node))
    }

    /// Returns the subjects of all statements, in force or not.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject<K>> {
        self.statements.subjects()
    }

    /// Counts the known statements of a node.
    pub fn held(&self, node: &NodeName) -> usize {
        self.statements.count(node)
    }

    fn longest(&self, node: &NodeName) -> Millis {
        if *node == self.config.node {
            Millis::MAX
        } else {
            self.config.bounds.longest
        }
    }

    /// Determines the revoked nodes, and returns the subjects of those for which that changed.
    fn judge_nodes(&mut self, wall: Millis) -> Vec<Subject<K>> {
        let is_revoked = |name: &&NodeName| {
            let subject = Subject::Node((*name).clone());
            let me = &self.config.node;
            // A revocation by this host is decisive, and a node that it revoked has no vote.
            let own = |node: &NodeName| {
                let of_node = Subject::Node(node.clone());
                let mut authors_in_force =
                    self.statements.authors_in_force(&of_node, wall, |_| true);
                authors_in_force.any(|(node, _)| node == me)
            };
            let counts = |node: &NodeName| node == me || !own(node);
            let authors_in_force = self.statements.authors_in_force(&subject, wall, counts);
            let authors_in_force: Vec<_> = authors_in_force.map(|(node, _)| node).collect();
            *name != me
                && (authors_in_force.contains(&me)
                    || authors_in_force.len() >= self.config.bounds.revokers.max(1))
        };
        let revoked: BTreeSet<_> = self
            .stated_nodes
            .iter()
            .filter(is_revoked)
            .cloned()
            .collect();
        let changed: Vec<_> = revoked
            .symmetric_difference(&self.revoked)
            .cloned()
            .collect();
        for name in revoked.difference(&self.revoked) {
            self.budget.members_mut().revoke(name);
        }
        self.revoked = revoked;
        changed
            .iter()
            .flat_map(|name| self.statements.subjects_of(name))
            .cloned()
            .collect()
    }

    /// Returns the budgets: members, silent nodes, the current period, shares.
    pub fn budget(&self) -> &Budget<K> {
        &self.budget
    }

    /// Returns the revoked nodes.
    pub fn revoked(&self) -> &BTreeSet<NodeName> {
        &self.revoked
    }

    /// Returns the nodes whose statements are incomplete here.
    pub fn behind(&self) -> impl Iterator<Item = &NodeName> {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.catch_up.is_behind())
            .map(|(name, _)| name)
    }
}
