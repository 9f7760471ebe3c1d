//! This host as a node of a cluster: what the nodes state, how the store is, and what of it is in force.
//!
//! What is stated here and elsewhere is merged by `ratelimit-cluster`, which is called with the time and the messages. What comes of it
//! are edits as of everybody else, made one after the other: what is allowed decides what may be banned.

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

use std::{
    cell::Cell,
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_cluster::{
    Cluster as Node, Config as NodeConfig, Denied, Host, Millis, NodeName, Now, Outgoing, Received,
    budget::{Count, Held, Limit},
    message::{Refusal, Secret},
    statements::{Bounds, Guard, Subject},
};
use ratelimit_core::{config::cluster::Cluster, intent::FOREVER, origin::Origin, prefix::Prefix};
use tokio::sync::watch;
use tracing::{info, warn};

use self::{budgets::Budgets, memory::Remembered, wall::Wall};
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
    protected::Requester,
};

/// What does not work where the store does not answer.
pub const CLUSTER: &str = "cluster";
/// How often all that is stated is compared with what is in force.
const SWEEP: Duration = Duration::from_secs(10);
/// How long a node that started waits to hear what others lifted.
const SETTLING: Duration = Duration::from_secs(15);
/// How often what this node states is written down, where it changed.
const WRITE: Duration = Duration::from_secs(2);
/// How often messages of one kind were refused.
#[derive(Clone, Debug, Default)]
struct Rejected {
    count: u64,
    reminder: Reminder,
}

/// The cluster as this host sees it.
pub struct Membership {
    connection: Connection<Cluster>,
    node: Option<Node<ClusterKey>>,
    /// The time that ends are compared with.
    wall: Cell<Wall>,
    refused: BTreeMap<&'static str, Rejected>,
    /// The last message that was refused, and why.
    refusal: Option<(Timestamp, String)>,
    /// Statements of peers without effect here.
    denied: Rejected,
    /// The last of them, and why.
    denial: Option<String>,
    /// Allows and limits that are in force and not here: who stated them, and why not.
    unheeded: BTreeMap<Subject<ClusterKey>, (NodeName, String)>,
    joined: std::time::Instant,
    /// Whether it was heard what the other nodes state since this one started.
    is_caught_up: bool,
    swept: std::time::Instant,
    kept: StateFile<Remembered>,
    written: std::time::Instant,
    is_unwritten: bool,
    budgets: Budgets,
}

impl Membership {
    /// A membership that is yet to begin.
    pub fn new(config: &ratelimit_core::config::Config) -> Self {
        Self {
            connection: Connection::new(config.cluster.clone()),
            node: None,
            wall: Cell::default(),
            refused: BTreeMap::new(),
            refusal: None,
            denied: Rejected::default(),
            denial: None,
            unheeded: BTreeMap::new(),
            joined: clock::monotonic(),
            is_caught_up: false,
            swept: clock::monotonic(),
            kept: StateFile::new(&config.paths.state, "cluster.json"),
            written: clock::monotonic(),
            is_unwritten: false,
            budgets: Budgets::default(),
        }
    }

    /// Follows another configuration, where it is another one.
    pub fn wish(&mut self, wish: Option<&Cluster>) {
        self.connection.wish(wish);
    }

    /// Which cluster is to be joined, now and after each reload.
    pub fn wishes(&self) -> watch::Receiver<Option<Cluster>> {
        self.connection.wishes()
    }

    /// Whether it is known what the other nodes lifted of what this one stated before it started: those that report agree with it.
    fn is_settled(&self) -> bool {
        let agrees = |node: &Node<ClusterKey>| {
            let members = node.budget().members();
            let silent: Vec<_> = members.silent().map(|(name, _)| name).collect();
            let mut others = members.names().iter().filter(|name| *name != node.name());
            others.all(|name| silent.contains(&name) || node.agrees_with(name))
        };
        clock::elapsed(self.joined) >= SETTLING && self.node.as_ref().is_some_and(agrees)
    }

    /// Notes that what the members state is known, as far as they report at all; says whether it was not before.
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

    /// Counts a message that is refused; of each kind one a minute is logged.
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

    /// Says what of the statements of peers has no effect here.
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

    /// Writes down what a restart needs, where it changed and was not written a moment ago.
    pub fn write(&mut self) {
        let Some(node) = self.node.as_ref().filter(|_| self.is_unwritten) else {
            return;
        };
        let remembered = Remembered::of(node, self.wall.get());
        // Of many statements this takes longer: it is done less often then.
        let statements = remembered.memory.statements.len() + remembered.memory.ended.len();
        let pause = WRITE * u32::try_from(1 + statements / 10_000).unwrap_or(u32::MAX);
        if clock::elapsed(self.written) >= pause {
            self.keep(&remembered);
        }
    }

    /// Writes down at once what a user stated or lifted here, so that no kill brings back what was before.
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

/// What the nodes ask this host.
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

    fn held(&self, key: &ClusterKey, later: Millis) -> Held {
        self.1.held(self.0, key, later)
    }
}

impl Membership {
    /// What both clocks show.
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

    /// Becomes a node, with what it stated before a restart.
    ///
    /// # Panics
    ///
    /// Never: a configuration has no name that is none.
    pub fn join(&mut self, state: &mut State, config: &Cluster, secret: Secret) -> NodeName {
        let node = NodeName::new(&config.node).expect("the configuration has checked the name");
        if self.is_unwritten {
            // Its next life begins with what is written down.
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
        // Its incarnation is never used again.
        self.write_down();
        self.connection.reset();
        if was_apart {
            // What this host stated and does not have any more it lifted meanwhile.
            self.state_own_bans(state, now, &self.stated_bans());
        }
        // What was lifted right before a kill.
        let all = self.all(state);
        self.put_in_force(state, now, all);
        info!(%node, stated, "a node of the cluster");
        node
    }

    /// Is no node any more. What other nodes banned ends here.
    pub fn leave(&mut self, state: &mut State) {
        self.remember_being_apart();
        self.node = None;
        self.connection.reset();
        self.unheeded.clear();
        self.end_bans(state);
        self.budgets.end();
    }

    /// Whether what is stated now is heard when the store answers again.
    pub fn waits_for_store(&self) -> bool {
        self.connection.connected == Some(false)
    }

    /// Takes notice that the store is connected to, and may have lost what this node stored.
    pub fn reach(&mut self) {
        if let Some(node) = &mut self.node {
            node.store_again();
        }
    }

    /// Takes notice that the store takes messages, or why it does not. Bans stay.
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

    /// States the bans of this host that changed, and takes in what was read from the stream.
    pub fn step(&mut self, state: &mut State, own_bans: &BTreeSet<Prefix>, heard: Vec<Heard>) {
        let now = self.now();
        self.budgets.follow(state);
        self.state_own_bans(state, now, own_bans);
        let mut changed: Vec<_> = own_bans.iter().copied().map(bans::ban_of).collect();
        changed.extend(self.hear(state, now, heard));
        if self.catch_up() || clock::elapsed(self.swept) >= SWEEP {
            self.state_own_changes(state, now);
            changed.extend(self.all(state));
            self.swept = clock::monotonic();
        }
        self.put_in_force(state, now, changed);
    }

    /// What is to be sent.
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

    /// Takes in parts of what a node stated, as the store has them.
    pub fn hear_stored(&mut self, state: &mut State, heard: Vec<Heard>) {
        let now = self.now();
        let changed = self.hear(state, now, heard);
        self.put_in_force(state, now, changed);
    }

    /// Takes messages in, and gives that of which something else may hold.
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
        // Which messages were heard, and what of them ended something, is not forgotten.
        self.is_unwritten |= !received.changed.is_empty();
        received.changed
    }
}
