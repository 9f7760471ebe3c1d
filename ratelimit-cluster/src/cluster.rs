//! One node of a cluster: what comes in, what goes out, what is in force, and the shares.

mod incarnation;
mod memory;
mod peer;
mod receive;
mod send;

pub use memory::Memory;
pub use receive::{Arrival, Denied, Received};
pub use send::Outgoing;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::budget::{Budget, Count, Held, Limit};
use crate::cluster_clock::ClusterClock;
use crate::key::Key;
use crate::message::Secret;
use crate::name::NodeName;
use crate::statements::{Bounds, Guard, InForce, Parts, Statement, StatementSet, Subject, Verb};
use crate::time::{Millis, Now, Stamp};
use incarnation::Incarnation;
use peer::Peer;

/// What a node is sent once.
#[derive(Clone)]
pub struct Config {
    /// Its name.
    pub node: NodeName,
    /// What all nodes of the cluster know and nobody else.
    pub secret: Secret,
    /// How long a period is; the same on all nodes.
    pub period: Millis,
    /// What is taken from a peer.
    pub bounds: Bounds,
}

/// What the cluster asks of the host that it is on.
pub trait Host<K>: Guard<K> {
    /// The limit of a key that the nodes share; nothing where there is none.
    fn limit(&self, key: &K) -> Option<Limit>;

    /// A hash of all limits that the nodes share. Nodes with different ones divide nothing with each other.
    fn limits(&self) -> u64;

    /// What was counted since the last call, of keys that need more than half of what a node has of them.
    fn counts(&mut self) -> Vec<Count<K>>;

    /// What is used of a key's windows, from now until so many milliseconds later.
    fn held(&self, key: &K, later: Millis) -> Held;
}

/// One node of a cluster.
pub struct Cluster<K> {
    config: Config,
    incarnation: Incarnation,
    sequence: u64,
    /// When the last own messages were sent, by the monotonic clock.
    sent: VecDeque<(u64, Millis)>,
    clock: ClusterClock,
    peers: BTreeMap<NodeName, Peer>,
    statements: StatementSet<K>,
    stamp: Stamp,
    /// Own statements that were not sent yet.
    unsent: Vec<Statement<K>>,
    parts: Parts,
    parts_stored: Option<Millis>,
    asked: Option<Millis>,
    /// Nodes that anybody stated something about, and those of them that are revoked.
    stated_nodes: BTreeSet<NodeName>,
    revoked: BTreeSet<NodeName>,
    budget: Budget<K>,
    hello: Option<Millis>,
    outbox: Vec<Outgoing>,
}

impl<K: Key> Cluster<K> {
    /// Begins, with what was remembered of the last start.
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
            asked: None,
            stated_nodes: BTreeSet::new(),
            revoked: BTreeSet::new(),
            budget,
            hello: None,
            outbox: vec![Outgoing::Fetch {
                node: config.node.clone(),
                parts: 1,
            }],
            config,
        };
        memory
            .statements
            .iter()
            .for_each(|statement| new.hold_own(statement));
        new.recall(memory.ended, memory.peers);
        new
    }

    /// The time of the store, once it is known.
    pub fn store_time(&self, monotonic: Millis) -> Option<Millis> {
        self.clock.at(monotonic)
    }

    /// The name of this node.
    pub fn name(&self) -> &NodeName {
        &self.config.node
    }

    /// States something until an end. What this node said before and ends later goes on.
    pub fn say(&mut self, now: Now, subject: Subject<K>, until: Millis, why: &str) {
        let until = self.own_end(now, &subject).unwrap_or_default().max(until);
        self.state(now, subject, Verb::Says, until, why);
    }

    /// Lifts what anybody stated about a subject so far; says whether there was anything.
    pub fn lift(&mut self, now: Now, subject: Subject<K>, why: &str) -> bool {
        self.lift_to(now, subject, None, why)
    }

    /// Lifts, too, what was not heard yet and ends by then; says whether there was anything.
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

    /// Takes back what this node itself stated about a subject; what others state goes on. Says whether there was anything.
    pub fn withdraw(&mut self, now: Now, subject: Subject<K>, why: &str) -> bool {
        let is_stated = self.own_end(now, &subject).is_some();
        if is_stated {
            self.state(now, subject, Verb::Says, now.wall, why);
        }
        is_stated
    }

    /// Until when this node itself states something that nobody has lifted.
    pub fn own_end(&self, now: Now, subject: &Subject<K>) -> Option<Millis> {
        let counts = |node: &NodeName| !self.revoked.contains(node);
        let mut sayers = self.statements.sayers(subject, now.wall, counts);
        let own = sayers.find(|(node, _)| **node == self.config.node);
        own.map(|(_, until)| until)
    }

    /// Which node lifted what this node stated and would hold still.
    pub fn lifted_by(&self, now: Now, subject: &Subject<K>) -> Option<NodeName> {
        let counts = |node: &NodeName| !self.revoked.contains(node);
        self.statements
            .lifter(&self.config.node, subject, now.wall, counts)
    }

    /// States itself that something is lifted which this node stated and another one lifted. So no restart brings it back, also where the other
    /// one is gone. Says whether there was anything.
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

    /// Whether nothing of what a node states is missing here: it reported so, or none of it counts.
    pub fn agrees_with(&self, node: &NodeName) -> bool {
        let peer = self.peers.get(node);
        self.revoked.contains(node) || peer.is_some_and(|peer| peer.catch_up.agrees())
    }

    /// Whether a node stated something about a subject that is held here.
    pub fn holds(&self, node: &NodeName, subject: &Subject<K>) -> bool {
        self.statements.holds(node, subject)
    }

    /// Takes in that the store may have lost what this node stored: all of it is stored again.
    pub fn store_again(&mut self) {
        self.parts_stored = None;
        self.parts.all();
    }

    /// The nodes that anything was heard of since the start.
    pub fn peers(&self) -> impl Iterator<Item = &NodeName> {
        let heard = self.peers.iter().filter(|(_, peer)| peer.is_heard);
        heard.map(|(name, _)| name)
    }

    fn state(&mut self, now: Now, subject: Subject<K>, verb: Verb, until: Millis, why: &str) {
        // By the store's clock where it is known: one host whose wall clock is ahead would lift what others state after it.
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

    fn hold_own(&mut self, statement: &Statement<K>) {
        self.statements.merge(&self.config.node, statement);
        self.stamp = self.stamp.max(statement.stamp);
        self.parts
            .changed(&statement.subject, self.statements.count(&self.config.node));
        if let Subject::Node(name) = &statement.subject {
            self.stated_nodes.insert(name.clone());
        }
    }

    /// What is in force about a subject. Where this host does not permit it to peers, only what it stated itself counts.
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

    /// All that anybody stated about, in force or not.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject<K>> {
        self.statements.subjects()
    }

    /// How many statements of a node are held.
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

    /// Works out which nodes are revoked, and gives the subjects of those for which that changed.
    fn judge_nodes(&mut self, wall: Millis) -> Vec<Subject<K>> {
        let is_revoked = |name: &&NodeName| {
            let subject = Subject::Node((*name).clone());
            let me = &self.config.node;
            // By its own word this host revokes; a node that it revoked has no say about others.
            let own = |node: &NodeName| {
                let of_node = Subject::Node(node.clone());
                let mut sayers = self.statements.sayers(&of_node, wall, |_| true);
                sayers.any(|(node, _)| node == me)
            };
            let counts = |node: &NodeName| node == me || !own(node);
            let sayers = self.statements.sayers(&subject, wall, counts);
            let sayers: Vec<_> = sayers.map(|(node, _)| node).collect();
            *name != me
                && (sayers.contains(&me) || sayers.len() >= self.config.bounds.revokers.max(1))
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

    /// The budgets: members, who is silent, the current period, shares.
    pub fn budget(&self) -> &Budget<K> {
        &self.budget
    }

    /// The nodes that are revoked.
    pub fn revoked(&self) -> &BTreeSet<NodeName> {
        &self.revoked
    }

    /// The nodes some of whose statements are missing here.
    pub fn behind(&self) -> impl Iterator<Item = &NodeName> {
        self.peers
            .iter()
            .filter(|(_, peer)| peer.catch_up.is_behind())
            .map(|(name, _)| name)
    }
}
