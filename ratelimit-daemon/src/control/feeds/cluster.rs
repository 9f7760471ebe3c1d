//! This host as a node of a cluster: the statements of the nodes, the state of the store, and which
//! statements are in force.
//!
//! `ratelimit-cluster` merges the statements of all nodes; it gets the time and the messages as
//! arguments. The results become edits like all others, one after the other, because allows decide
//! what may be banned.

mod bans;
mod budgets;
mod changes;
mod counted;
mod memory;
mod recent;
mod shared_limit;
mod status;
mod used;
mod wall;

use std::{cell::Cell, collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use ratelimit_cluster::{
    Cluster as Node, Config as NodeConfig, Denied, Host, Millis, NodeName, Now, Outgoing, Received,
    budget::{Count, Limit, WindowUsage},
    message::{Refusal, Secret},
    statements::{Bounds, Guard, Subject},
};
use ratelimit_core::{config::cluster::Cluster, intent::FOREVER, origin::Origin, prefix::Prefix};
use tokio::sync::watch;
use tracing::{info, warn};

use self::{bans::Lift, budgets::Budgets, memory::Remembered, wall::Wall};
pub use self::{
    changes::{allow_of, is_of_cluster, limits_of},
    shared_limit::log_key,
    status::no_cluster,
};
use super::connection::Connection;
use crate::{
    clock,
    cluster::{ClusterKey, Heard},
    control::{persistence::state_file::StateFile, reports::log_throttle::Reminder, state::State},
    keys::Keys,
    protected::Requester,
};

/// The name of the trouble that the store does not respond.
pub const CLUSTER: &str = "cluster";
/// The interval at which all statements are compared with the state in force.
const SWEEP: Duration = Duration::from_secs(10);
/// The most statements that a step of the sweep compares: each takes about 10 us, for which the
/// controller is busy.
const SWEPT_AT_ONCE: usize = 1_000;
/// The time for which a new node waits for lifts by other nodes.
const SETTLING: Duration = Duration::from_secs(15);
/// The interval at which changed statements of this node are saved.
const WRITE: Duration = Duration::from_secs(2);
/// Counts refused messages of one kind.
#[derive(Clone, Debug, Default)]
struct Rejected {
    count: u64,
    reminder: Reminder,
}

/// The cluster as this host sees it.
pub struct Membership {
    connection: Connection<Cluster>,
    node: Option<Node<ClusterKey>>,
    /// Lifts from before this host joined, such as while it waits for the secret, with their
    /// authors.
    early_lifts: Vec<(Vec<Lift>, String)>,
    /// The clock for the ends of statements.
    wall: Cell<Wall>,
    /// The same clock when bans of this host were last stated.
    stated_by: Wall,
    refused: BTreeMap<&'static str, Rejected>,
    /// The last refused message, and why.
    refusal: Option<(Timestamp, String)>,
    /// Statements of peers that have no effect here.
    denied: Rejected,
    /// The last of them, and why.
    denial: Option<String>,
    /// Allows and limits in force elsewhere but not here: the node that stated them, and why.
    unheeded: BTreeMap<Subject<ClusterKey>, (NodeName, String)>,
    joined: std::time::Instant,
    /// Whether the statements of the other nodes are known since this one started.
    is_caught_up: bool,
    swept: std::time::Instant,
    /// Subjects that the current sweep has not compared yet, in reverse order.
    sweep: Vec<Subject<ClusterKey>>,
    kept: StateFile<Remembered>,
    written: std::time::Instant,
    is_unwritten: bool,
    budgets: Budgets,
}

impl Membership {
    /// Returns a membership that has not begun.
    pub fn new(config: &ratelimit_core::config::Config, keys: Keys) -> Self {
        Self {
            connection: Connection::new(config.cluster.clone()),
            node: None,
            early_lifts: Vec::new(),
            wall: Cell::default(),
            stated_by: Wall::default(),
            refused: BTreeMap::new(),
            refusal: None,
            denied: Rejected::default(),
            denial: None,
            unheeded: BTreeMap::new(),
            joined: clock::monotonic(),
            is_caught_up: false,
            swept: clock::monotonic(),
            sweep: Vec::new(),
            kept: StateFile::new(&config.paths.state, "cluster.json"),
            written: clock::monotonic(),
            is_unwritten: false,
            budgets: Budgets::new(keys),
        }
    }

    /// Applies another configuration.
    pub fn wish(&mut self, wish: Option<&Cluster>) {
        self.connection.wish(wish);
    }

    /// Returns the cluster to join, now and after each reload.
    pub fn wishes(&self) -> watch::Receiver<Option<Cluster>> {
        self.connection.wishes()
    }

    /// Returns whether this node knows which of its old statements other nodes lifted: all nodes
    /// that report agree with it.
    fn is_settled(&self) -> bool {
        let agrees = |node: &Node<ClusterKey>| {
            let members = node.budget().members();
            let silent: Vec<_> = members.silent().map(|(name, _)| name).collect();
            let mut others = members.names().iter().filter(|name| *name != node.name());
            others.all(|name| silent.contains(&name) || node.agrees_with(name))
        };
        clock::elapsed(self.joined) >= SETTLING && self.node.as_ref().is_some_and(agrees)
    }

    /// Notes whether the statements of all reporting members are known. Returns whether that is
    /// new.
    fn catch_up(&mut self) -> bool {
        let is_known = |node: &Node<ClusterKey>| {
            let mut members = node.budget().members().names().iter();
            members.all(|name| name == node.name() || node.agrees_with(name))
        };
        let is_new = !self.is_caught_up
            && (clock::elapsed(self.joined) >= SETTLING
                || self.node.as_ref().is_some_and(is_known));
        self.is_caught_up |= is_new;
        is_new
    }

    /// Counts a refused message, and logs one of each kind per minute.
    fn refuse(&mut self, refusal: &Refusal) {
        let refused = self.refused.entry(refusal.label()).or_default();
        refused.count += 1;
        let text = refusal.to_string();
        if refused.reminder.is_due() {
            warn!(
                refusal = text,
                count = refused.count,
                "cluster message refused"
            );
        }
        self.refusal = Some((clock::wall(), text));
    }

    /// Reports which statements of peers have no effect here.
    fn deny(&mut self, denied: &[Denied<ClusterKey>]) {
        let Some(last) = denied.last() else {
            return;
        };
        self.denied.count += denied.len() as u64;
        let subject = changes::name(&last.subject);
        let text = format!("{subject} by `{}`: {}", last.node, last.why);
        if self.denied.reminder.is_due() {
            warn!(
                last = text,
                count = self.denied.count,
                "change of another node ignored"
            );
        }
        self.denial = Some(text);
    }

    /// Saves the memory for a restart, if it changed and was not saved a moment ago.
    pub fn write(&mut self) {
        let Some(node) = self.node.as_ref().filter(|_| self.is_unwritten) else {
            return;
        };
        let remembered = Remembered::of(node, self.wall.get());
        // Saving many statements takes longer, so do it less often.
        let statements = remembered.memory.statements.len() + remembered.memory.ended.len();
        let pause = WRITE * u32::try_from(1 + statements / 10_000).unwrap_or(u32::MAX);
        if clock::elapsed(self.written) >= pause {
            self.keep(&remembered);
        }
    }

    /// Saves immediately what a user stated or lifted here, so that it survives a crash.
    pub fn write_down(&mut self) {
        if let Some(node) = &self.node {
            let remembered = Remembered::of(node, self.wall.get());
            self.keep(&remembered);
        }
    }

    fn keep(&mut self, remembered: &Remembered) {
        self.kept.keep(Some(remembered));
        self.written = clock::monotonic();
        self.is_unwritten = false;
    }
}

/// Answers questions of the cluster about this host.
struct Here<'a>(&'a State, &'a Budgets);

impl Guard<ClusterKey> for Here<'_> {
    fn permits(&self, subject: &Subject<ClusterKey>) -> Result<(), &'static str> {
        match subject {
            Subject::Ban(ClusterKey::Prefix(prefix)) => self.permits_ban(*prefix),
            Subject::Allow(ClusterKey::Prefix(prefix)) => self.permits_allow(*prefix),
            Subject::Limits(ClusterKey::Prefix(_) | ClusterKey::Default) | Subject::Node(_) => {
                Ok(())
            }
            Subject::Ban(_) | Subject::Allow(_) | Subject::Limits(_) => Err("not a prefix"),
        }
    }
}

impl Here<'_> {
    fn permits_ban(&self, prefix: Prefix) -> Result<(), &'static str> {
        if self.0.protection.vet(prefix, Requester::Other).is_err() {
            return Err("wider than other nodes may ban");
        }
        if prefix.is_address() && self.0.protection.why(prefix.address()).is_some() {
            return Err("protected here");
        }
        let is_allowed = |outer: Prefix| self.0.intent.is_allowed(outer);
        if prefix.supernets().any(is_allowed) {
            return Err("allowed here");
        }
        Ok(())
    }

    fn permits_allow(&self, prefix: Prefix) -> Result<(), &'static str> {
        if changes::is_wide(prefix) {
            return Err("wider than other nodes may allow");
        }
        let is_lasting = |origin: &Origin, until| {
            matches!(origin, Origin::Manual | Origin::Forced) && until == FOREVER
        };
        let around = prefix.supernets().any(|outer| {
            let mut bans = self.0.intent.bans_of(outer);
            bans.any(|(origin, row)| is_lasting(origin, row.until))
        });
        let from_here = self.0.intent.bans().range((prefix, Origin::FIRST)..);
        let mut within = from_here.take_while(|((inner, _), _)| prefix.covers(*inner));
        if around || within.any(|((_, origin), row)| is_lasting(origin, row.until)) {
            return Err("permanently banned here");
        }
        Ok(())
    }
}

impl Host<ClusterKey> for Here<'_> {
    fn limit(&self, key: &ClusterKey) -> Option<Limit> {
        self.1.limit(key)
    }

    fn limits(&self) -> u64 {
        self.1.hash()
    }

    fn counts(&mut self) -> Vec<Count<ClusterKey>> {
        self.1.counts(self.0)
    }

    fn held(&self, key: &ClusterKey, later: Millis) -> WindowUsage {
        self.1.held(self.0, key, later)
    }
}

impl Membership {
    fn now(&self) -> Now {
        let [monotonic, since_boot] =
            [clock::now(), clock::since_boot()].map(|it| it.as_nanos() / 1_000_000);
        let node = self.node.as_ref();
        let store = node.and_then(|node| node.store_time(monotonic));
        let mut wall = self.wall.get();
        let shown = wall.read(since_boot, clock::wall_millis(), store);
        self.wall.set(wall);
        Now {
            wall: shown,
            monotonic,
        }
    }

    /// Joins the cluster, with the statements from before a restart.
    ///
    /// # Panics
    ///
    /// Never: the configuration has a valid name.
    pub fn join(&mut self, state: &mut State, config: &Cluster, secret: Secret) -> NodeName {
        let node = NodeName::new(&config.node).expect("the configuration has checked the name");
        if self.is_unwritten {
            // The next run starts with what is saved.
            self.write_down();
        }
        let (was_apart, mut memory) = self.remembered(&node);
        self.budgets.begin(config.period);
        self.budgets.follow(state);
        memory.shares = self.budgets.leased(state);
        memory.views.at_least = config.nodes.into();
        memory.divided_by = memory.divided_by.max(config.nodes.into());
        let (now, stated) = (self.now(), memory.statements.len());
        let own = NodeConfig {
            node: node.clone(),
            secret,
            period: config.period.as_millis().try_into().unwrap_or(Millis::MAX),
            bounds: Bounds::default(),
        };
        self.joined = clock::monotonic();
        self.is_caught_up = false;
        self.node = Some(Node::new(own, now, memory));
        for (lifts, author) in std::mem::take(&mut self.early_lifts) {
            self.lift(lifts, &author);
        }
        // Save the incarnation, so that it is never used again.
        self.write_down();
        self.connection.reset();
        if was_apart {
            // Bans that ended on this host while it was away are lifted.
            self.state_own_bans(state, now, &self.stated_bans());
        }
        // Lifts from right before a crash.
        let all = self.all(state);
        self.put_in_force(state, now, all);
        info!(%node, stated, "a node of the cluster");
        node
    }

    /// Leaves the cluster. Bans of other nodes end here.
    pub fn leave(&mut self, state: &mut State) {
        self.record_leaving();
        self.node = None;
        self.early_lifts.clear();
        self.connection.reset();
        self.unheeded.clear();
        self.end_bans(state);
        self.budgets.end();
    }

    /// Returns whether a statement of now will be heard when the store responds again.
    pub fn waits_for_store(&self) -> bool {
        self.connection.connected == Some(false)
    }

    /// Notes that the store is connected, and may have lost the messages of this node.
    pub fn reach(&mut self) {
        if let Some(node) = &mut self.node {
            node.store_again();
        }
    }

    /// Records whether the store accepts messages, or why not. Bans stay.
    pub fn note_store(&mut self, state: &mut State, answer: Result<(), String>) {
        let url = self.url().unwrap_or_default();
        match answer {
            Ok(()) => {
                if self.connection.turn(true, None) {
                    info!(url, "connected to the cluster store");
                    state.report(CLUSTER, None);
                }
            }
            Err(error) => {
                let trouble =
                    format!("{url}: {error}; bans stay in force and are shared when it returns");
                if self.connection.lose(error) {
                    state.report(CLUSTER, Some(trouble));
                }
            }
        }
    }

    /// States the changed bans of this host, and processes messages from the stream.
    pub fn step(&mut self, state: &mut State, heard: Vec<Heard>) {
        let now = self.now();
        self.budgets.follow(state);
        let own_bans = self.unstated_bans(state, now);
        self.state_own_bans(state, now, &own_bans);
        let mut changed: Vec<_> = own_bans.into_iter().map(bans::ban_of).collect();
        changed.extend(self.hear(state, now, heard));
        let is_due = self.sweep.is_empty() && clock::elapsed(self.swept) >= SWEEP;
        if self.catch_up() || is_due {
            self.state_own_changes(state, now);
            // Bans come first in order, so allows and limits are compared before them.
            self.sweep = self.all(state).into_iter().collect();
            self.swept = clock::monotonic();
        }
        let rest = self.sweep.len().saturating_sub(SWEPT_AT_ONCE);
        changed.extend(self.sweep.drain(rest..));
        self.put_in_force(state, now, changed);
    }

    /// Returns the messages to send.
    pub fn outgoing(&mut self, state: &State) -> Vec<Outgoing> {
        let now = self.now();
        let Some(node) = &mut self.node else {
            return Vec::new();
        };
        let incarnation = node.incarnation();
        let due = node.due(now, &mut Here(state, &self.budgets));
        if node.incarnation() != incarnation {
            self.write_down();
        }
        due
    }

    /// Processes parts of a node's statements that the store has kept.
    pub fn hear_stored(&mut self, state: &mut State, heard: Vec<Heard>) {
        let now = self.now();
        let changed = self.hear(state, now, heard);
        self.put_in_force(state, now, changed);
    }

    /// Processes messages, and returns the subjects that may have changed.
    fn hear(&mut self, state: &State, now: Now, heard: Vec<Heard>) -> Vec<Subject<ClusterKey>> {
        let mut changed = Vec::new();
        for Heard { arrival, message } in heard {
            let Some(node) = &mut self.node else {
                return Vec::new();
            };
            match node.receive(now, arrival, &message, &Here(state, &self.budgets)) {
                Ok(received) => changed.extend(self.receive(received)),
                Err(refusal) => self.refuse(&refusal),
            }
        }
        changed
    }

    fn receive(&mut self, received: Received<ClusterKey>) -> Vec<Subject<ClusterKey>> {
        self.deny(&received.denied);
        // Save which messages were heard, and which of them ended something.
        self.is_unwritten |= !received.changed.is_empty();
        received.changed
    }
}
