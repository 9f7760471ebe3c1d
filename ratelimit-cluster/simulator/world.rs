//! All of it together: one run of a seed.

use core::ops::Range;
use std::collections::BTreeMap;

use ratelimit_cluster::budget::members::Views;
use ratelimit_cluster::message::{Refusal, open};
use ratelimit_cluster::statements::{StatementSet, Subject};
use ratelimit_cluster::{Arrival, Memory, Millis, NodeName, Outgoing};

use super::faults::{FROM, Fault, Faults, LENGTH, TO};
use super::invariants::{Invariant, Violation, bound};
use super::node::{Kernel, Key, LIMITS, Ledger, Node, PERIOD, WINDOW, WINDOWED, secret};
use super::random::Random;
use super::store::{Network, Store};

/// The beginning of a run, by the wall clock.
const BEGIN: Millis = 1_700_000_000_000;
const TICK: Millis = 100;
const WELL: Network = Network {
    loss: 0,
    twice: 0,
    delay: 40,
};
const SUBJECTS: u64 = 12;

/// The totals of several runs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Messages that were taken.
    pub taken: u64,
    /// Messages that were refused as seen before.
    pub replayed: u64,
    /// Other messages that were refused.
    pub refused: u64,
    /// Periods of a key that were checked.
    pub periods: u64,
    /// Periods in which all nodes together had more than the limit, within the bound.
    pub above: u64,
    /// The most that they had, in thousandths of the limit.
    pub most: u64,
    /// The most that was used at a time of all windows that were running on the nodes, in
    /// thousandths of the limit: when all is well.
    pub most_in_windows: u64,
    /// The same during a fault.
    pub most_in_windows_ill: u64,
    /// The most that was not admitted of a limit with a long window over two windows when all is
    /// well, in thousandths.
    pub lost: u64,
}

impl Tally {
    /// Both together.
    pub fn add(&mut self, other: Self) {
        self.taken += other.taken;
        self.replayed += other.replayed;
        self.refused += other.refused;
        self.periods += other.periods;
        self.above += other.above;
        self.most = self.most.max(other.most);
        self.most_in_windows = self.most_in_windows.max(other.most_in_windows);
        self.most_in_windows_ill = self.most_in_windows_ill.max(other.most_in_windows_ill);
        self.lost = self.lost.max(other.lost);
    }
}

/// Plays a seed.
///
/// # Errors
/// What did not hold, with all that happened before.
pub fn run(seed: u64) -> Result<Tally, Box<Violation>> {
    World::new(seed, false)
        .play()
        .map_err(|_| match World::new(seed, true).play() {
            Err(violation) => violation,
            Ok(_) => unreachable!("the same seed is the same run"),
        })
}

struct World {
    seed: u64,
    random: Random,
    faults: Faults,
    now: Millis,
    nodes: Vec<Node>,
    store: Store,
    /// The first node that is connected to the other half of the store.
    split: Option<usize>,
    ledger: Ledger,
    /// Every statement of every honest node.
    stated: StatementSet<Key>,
    /// The end of the bans that were not lifted, by node and key.
    said: BTreeMap<(usize, Key), Millis>,
    /// The time at which the ban of each key was last lifted.
    lifted: BTreeMap<Key, Millis>,
    /// Periods that come twice.
    twice: Vec<Range<u64>>,
    /// The amount admitted in the last two windows of keys with long windows.
    late: BTreeMap<u8, u64>,
    tally: Tally,
    trace: Option<Vec<String>>,
}

mod moving;
mod windows;

pub use moving::run_moving;

type Checked = Result<(), Box<Violation>>;

impl World {
    fn new(seed: u64, is_traced: bool) -> Self {
        let mut random = Random(seed);
        let faults = Faults::draw(&mut random);
        Self::with(seed, random, faults, is_traced)
    }

    fn with(seed: u64, mut random: Random, faults: Faults, is_traced: bool) -> Self {
        let at_least = faults.nodes as u64;
        let nodes = (0..faults.nodes).map(|place| {
            let memory = Memory {
                views: Views {
                    at_least,
                    ..Views::default()
                },
                ..Memory::default()
            };
            let booted = BEGIN - random.below(1_000_000);
            let name = NodeName::new(&format!("node-{place}")).expect("a name");
            let (cluster, kernel) = (None, Kernel::default());
            let ahead = random.between(-5_000, 5_000);
            Node {
                place,
                name,
                ahead,
                booted,
                cluster,
                memory,
                kernel,
                cut_until: 0,
                hung_until: 0,
                starts_at: BEGIN + random.below(1_500),
                started: 0,
            }
        });
        Self {
            seed,
            nodes: nodes.collect(),
            random,
            faults,
            now: BEGIN,
            store: Store::default(),
            split: None,
            ledger: Ledger::new(),
            stated: StatementSet::default(),
            said: BTreeMap::new(),
            lifted: BTreeMap::new(),
            twice: Vec::new(),
            late: BTreeMap::new(),
            tally: Tally::default(),
            trace: is_traced.then(Vec::new),
        }
    }

    fn play(mut self) -> Result<Tally, Box<Violation>> {
        let faults = self.faults.clone();
        self.note(|| format!("{faults:?}"));
        let mut events = faults.events.into_iter().peekable();
        while self.now < BEGIN + LENGTH {
            self.now += TICK;
            while let Some((_, fault)) = events.next_if(|(at, _)| BEGIN + at <= self.now) {
                self.apply(fault);
            }
            if self.now == BEGIN + TO {
                self.heal();
            }
            self.offer();
            self.check_windows()?;
            self.state();
            self.deliver()?;
            self.run_daemons();
            if self.now.is_multiple_of(1_000) {
                self.store.replicate();
                self.check_lists()?;
            }
        }
        self.check_budgets()?;
        self.check_late()?;
        self.check_well()?;
        Ok(self.tally)
    }

    fn well(&self) -> bool {
        !(BEGIN + FROM..BEGIN + TO).contains(&self.now)
    }

    fn network(&self) -> Network {
        if self.well() {
            WELL
        } else {
            self.faults.network
        }
    }

    fn note(&mut self, line: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(format!("{:>7} {}", self.now - BEGIN, line()));
        }
    }

    fn fail(&self, invariant: Invariant, what: String) -> Checked {
        Err(Box::new(Violation {
            seed: self.seed,
            invariant,
            what,
            trace: self.trace.clone().unwrap_or_default(),
        }))
    }

    fn apply(&mut self, fault: Fault) {
        self.note(|| format!("{fault:?}"));
        match fault {
            Fault::Cut(node, length) => self.nodes[node].cut_until = self.now + length,
            Fault::Hang(node, length) => self.nodes[node].hung_until = self.now + length,
            Fault::SetClock(node, ahead) => self.nodes[node].ahead = ahead,
            Fault::Restart(node, length) => {
                self.nodes[node].kill();
                self.nodes[node].starts_at = self.now + length;
            }
            Fault::SetStoreClock(ahead) => {
                if ahead < self.store.ahead {
                    // Ids, and with them the cluster's clock, stop until the clock has caught up,
                    // so these periods come twice.
                    let last = self
                        .store
                        .last
                        .max(self.now.saturating_add_signed(self.store.ahead))
                        / PERIOD;
                    self.twice.push(last.saturating_sub(6)..last + 16);
                }
                self.store.ahead = ahead;
            }
            Fault::FailOver => self.store.fail_over(),
            Fault::Split(at) => self.split = Some(at),
            Fault::Flush => {
                // The cluster's clock may go back with the ids: these periods come twice.
                let (from, to) = (
                    self.now.saturating_add_signed(self.store.ahead),
                    self.store.last,
                );
                if to > from + PERIOD {
                    self.twice.push(from / PERIOD - 5..to / PERIOD + 6);
                }
                self.store.flush();
            }
        }
    }

    /// Ends all faults and brings absent nodes back.
    fn heal(&mut self) {
        let now = self.now;
        self.split = None;
        for node in &mut self.nodes {
            (node.cut_until, node.hung_until, node.starts_at) = (0, 0, node.starts_at.min(now));
        }
        self.start();
    }

    fn start(&mut self) {
        for node in self
            .nodes
            .iter_mut()
            .filter(|node| node.cluster.is_none() && node.starts_at <= self.now)
        {
            node.start(self.now);
            if let Some(cluster) = &node.cluster {
                node.kernel.write(
                    node.place,
                    cluster,
                    node.now(self.now).monotonic,
                    &mut self.ledger,
                );
            }
        }
    }

    /// Traffic: more than the limit of the first two keys, to all nodes, one node, or one after the
    /// other.
    fn offer(&mut self) {
        let nodes = self.nodes.len();
        let second = usize::try_from((self.now - BEGIN) / 1000).expect("some seconds");
        for (key, limit) in (0u8..).zip(LIMITS) {
            let all = limit.amount;
            for node in &mut self.nodes {
                let amount = match (self.seed.wrapping_add(u64::from(key))) % 4 {
                    0 => all / nodes as u64,
                    1 => all >> (2 * node.place),
                    2 => all * u64::from(node.place == second / 5 % nodes),
                    _ => all * u64::from(node.place == 0),
                };
                let is_alive = node.cluster.is_some() && node.hung_until <= self.now;
                let admitted = node.kernel.offer(
                    node.place,
                    is_alive,
                    self.now - node.booted,
                    key,
                    amount,
                    &mut self.ledger,
                );
                if self.now > BEGIN + LENGTH - 2 * WINDOW {
                    *self.late.entry(key).or_default() += admitted;
                }
            }
        }
    }

    fn state(&mut self) {
        let is_early = self.now < BEGIN + TO + 2_000;
        if !is_early || !self.random.percent(12) {
            return;
        }
        let place = self.random.place(self.nodes.len());
        let key = vec![100 + self.random.below(SUBJECTS).to_le_bytes()[0]];
        let until = self.now + 3_000 + self.random.below(60_000);
        let subject = if self.random.percent(75) {
            Subject::Ban(key)
        } else {
            Subject::Allow(key)
        };
        if self.random.percent(80) {
            self.say(place, &subject, until);
        } else {
            self.lift(place, &subject);
        }
    }

    fn say(&mut self, place: usize, subject: &Subject<Key>, until: Millis) {
        let node = &mut self.nodes[place];
        let now = node.now(self.now);
        if let Some(cluster) = node.cluster.as_mut() {
            cluster.say(now, subject.clone(), until, "why");
            // A lift on a node that is cut off, or by a store's clock that was set, may count as
            // later than it was.
            let is_clear = |key| {
                self.lifted
                    .get(key)
                    .is_none_or(|lifted| lifted + 20_000 < self.now)
            };
            if let Subject::Ban(key) = subject
                && is_clear(key)
            {
                let said = self.said.entry((place, key.clone())).or_default();
                *said = until.max(*said);
            }
            self.take_down(place);
            self.note(|| format!("node-{place} says {subject:?} until {}", until - BEGIN));
        }
    }

    fn lift(&mut self, place: usize, subject: &Subject<Key>) {
        let node = &mut self.nodes[place];
        let now = node.now(self.now);
        if node
            .cluster
            .as_mut()
            .is_some_and(|cluster| cluster.lift(now, subject.clone(), "why not"))
        {
            if let Subject::Ban(key) = subject {
                self.said.retain(|(_, said), _| said != key);
                self.lifted.insert(key.clone(), self.now);
            }
            self.take_down(place);
            self.note(|| format!("node-{place} lifts {subject:?}"));
        }
    }

    /// Takes down what a node stated.
    fn take_down(&mut self, place: usize) {
        let node = &self.nodes[place];
        let memory = node.cluster.iter().map(ratelimit_cluster::Cluster::memory);
        memory
            .flat_map(|memory| memory.statements)
            .for_each(|statement| {
                self.stated.merge(&node.name, &statement);
            });
    }

    fn deliver(&mut self) -> Checked {
        while let Some(delivery) = self.store.next(self.now) {
            let node = &mut self.nodes[delivery.to()];
            let away = node.cut_until.max(node.hung_until);
            if away > self.now {
                self.store.again(delivery, away);
                continue;
            }
            let now = node.now(self.now);
            let Some(cluster) = node.cluster.as_mut() else {
                continue;
            };
            let (arrival, bytes) = delivery.message();
            match cluster.receive(now, arrival, bytes, &node.kernel) {
                Ok(_) => self.tally.taken += 1,
                Err(Refusal::Replayed { .. } | Refusal::Outlived { .. }) => {
                    self.tally.replayed += 1;
                }
                Err(refusal) => {
                    self.tally.refused += 1;
                    let is_twice =
                        matches!(refusal, Refusal::TwoReports { .. }) && !self.twice.is_empty();
                    if !is_twice {
                        let what = format!("node-{} refuses: {refusal}", delivery.to());
                        return self.fail(Invariant::NobodyAccused, what);
                    }
                }
            }
            let is_of_another = matches!(arrival, Arrival::Stream { .. })
                && open(&secret(), bytes).is_ok_and(|(header, _)| header.node != node.name);
            if is_of_another
                && self.tally.taken.is_multiple_of(8)
                && cluster.receive(now, arrival, bytes, &node.kernel).is_ok()
            {
                let what = format!("node-{} takes a message twice", delivery.to());
                return self.fail(Invariant::NoReplay, what);
            }
        }
        Ok(())
    }

    fn run_daemons(&mut self) {
        self.start();
        for place in 0..self.nodes.len() {
            let node = &mut self.nodes[place];
            let now = node.now(self.now);
            if node.hung_until > self.now {
                continue;
            }
            let Some(cluster) = node.cluster.as_mut() else {
                continue;
            };
            let outgoing = cluster.due(now, &mut node.kernel);
            node.kernel
                .write(place, cluster, now.monotonic, &mut self.ledger);
            if node.cut_until > self.now {
                continue;
            }
            for outgoing in outgoing {
                self.send(place, outgoing);
            }
        }
    }

    fn send(&mut self, place: usize, outgoing: Outgoing) {
        let network = self.network();
        let readers = match self.split {
            Some(at) if place < at => 0..at,
            Some(at) => at..self.nodes.len(),
            None => 0..self.nodes.len(),
        };
        match outgoing {
            Outgoing::Publish(bytes) => {
                self.store
                    .publish(self.now, &bytes, readers, network, &mut self.random);
            }
            Outgoing::Store { part, message, .. } => {
                self.store
                    .store(self.nodes[place].name.as_str(), part, &message);
            }
            Outgoing::Fetch { node, .. } => self.store.fetch(self.now, node.as_str(), place),
        }
    }

    fn check_lists(&self) -> Checked {
        for place in 0..self.nodes.len() {
            let node = &self.nodes[place];
            let Some(cluster) = &node.cluster else {
                continue;
            };
            let now = node.now(self.now);
            let missing = self.said.iter().find(|((by, key), until)| {
                let in_force = || cluster.in_force(now, &Subject::Ban(key.clone()), &node.kernel);
                *by == place
                    && **until > now.wall
                    && in_force().is_none_or(|in_force| in_force.until < **until)
            });
            if let Some(missing) = missing {
                let what = format!("{missing:?} is not in force on node-{place}");
                return self.fail(Invariant::NothingOpens, what);
            }
        }
        Ok(())
    }

    /// Checks the state after a long time without faults.
    fn check_well(&self) -> Checked {
        let nodes = self.nodes.len();
        let subjects: Vec<_> = (0..SUBJECTS)
            .map(|key| vec![100 + key.to_le_bytes()[0]])
            .collect();
        for place in 0..nodes {
            let node = &self.nodes[place];
            let Some(cluster) = &node.cluster else {
                continue;
            };
            let now = ratelimit_cluster::Now {
                wall: self.now,
                monotonic: 0,
            };
            for subject in subjects
                .iter()
                .flat_map(|key| [Subject::Ban(key.clone()), Subject::Allow(key.clone())])
            {
                let is = cluster
                    .in_force(now, &subject, &node.kernel)
                    .map(|in_force| (in_force.until, in_force.by));
                let intended = self
                    .stated
                    .in_force(&subject, self.now, |_| true, |_| u64::MAX / 2)
                    .map(|in_force| (in_force.until, in_force.by));
                if is != intended {
                    let what = format!("{subject:?} on node-{place} is {is:?}, not {intended:?}");
                    return self.fail(Invariant::ListsAgree, what);
                }
            }
            let members = cluster.budget().members();
            if members.names().len() != nodes
                || (self.twice.is_empty() && members.views().attempts.len() > 1)
            {
                let what = format!("node-{place} sees {:?}", members.views());
                return self.fail(Invariant::MembersAgree, what);
            }
        }
        Ok(())
    }

    fn check_budgets(&mut self) -> Checked {
        let nodes = self.nodes.len() as u64;
        let last = self
            .ledger
            .keys()
            .next_back()
            .map_or(0, |(period, _)| *period);
        for ((period, key), used) in core::mem::take(&mut self.ledger) {
            if self.twice.iter().any(|twice| twice.contains(&period)) {
                continue;
            }
            let limit = LIMITS[usize::from(key)].amount;
            let bound = bound(limit, used.values());
            let shares: u64 = used.values().map(|used| used.share).sum();
            let admitted: u64 = used.values().map(|used| used.admitted).sum();
            self.tally.periods += 1;
            self.tally.above += u64::from(shares > limit);
            self.tally.most = self.tally.most.max(shares * 1000 / limit);
            let what = || {
                format!("key {key}, period {period}: {shares} of {limit}, bound {bound}, {used:?}")
            };
            if shares > bound {
                return self.fail(Invariant::SharesWithinBound, what());
            }
            if key < WINDOWED && admitted > bound {
                return self.fail(Invariant::AdmittedWithinBound, what());
            }
            if self
                .faults
                .only_partition
                .is_some_and(|behind| shares > limit + limit * behind as u64 / nodes)
            {
                return self.fail(Invariant::PartitionWithinBound, what());
            }
            if key >= WINDOWED {
                continue;
            }
            // The last whole periods; a moving source needs three to be followed.
            let is_well = self.twice.is_empty()
                && (last - 4..last - 1).contains(&period)
                && (self.seed.wrapping_add(u64::from(key))) % 4 != 2;
            if is_well && admitted * 100 < limit * 95 {
                return self.fail(Invariant::LimitIsUsed, what());
            }
        }
        Ok(())
    }
}
