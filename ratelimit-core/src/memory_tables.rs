//! The tables of the datapath in memory: the other implementation of [`Tables`], for simulations and tests.
//!
//! It decides as the kernel does. Where the store is `lru` it forgets nothing unless it is told how many sources there is room
//! for; of sliding logs and strikes it forgets nothing.

mod compact;
mod family;
mod node;
mod recent;

use std::{cell::Cell, net::IpAddr, sync::atomic::AtomicU64};

use ratelimit_common::{
    Address, Arrival, BanBudgets, BanRule, ClassSet, Cursor, Detected, Family, Instant, Ipv4, Ipv6,
    ListEntry, Policy, Settings, SourceKey, Standing, Tables, Verdict,
    aggregate::Aggregates,
    ban_budget::SLOTS,
    charge::{Outcome, Refusal},
    compact::Mix,
    decide,
    detected::{Detection, Tally},
    layout::{COUNTERS, Counter, INTERFACES_MAX, counter_index},
    list::Listed,
    neighbour_discovery,
    new_sources::{self, Budget, BudgetShares, Newcomer, Taken},
    node::{Node as _, Share},
    parse::{LinkLayer, transport::Kind},
    state,
    strikes::Strike,
    tables::{FamilyTables, InsertError},
};

pub use compact::MemoryCompact;
use family::MemoryWord;
pub use family::{MemoryFamily, MemoryRing, MemoryWords};
pub use node::MemoryNode;

use crate::{
    atomic_ring::AtomicRing, class_tables::ClassTables, ip_family::IpAddress, prefix::Prefix,
};

/// Every interface is the first one.
const INTERFACE: u32 = 0;
const COUNTERS_OF_INTERFACE: usize = (COUNTERS / INTERFACES_MAX) as usize;

/// Settings, policies, lists, and what the packets so far have left behind.
#[derive(Debug)]
pub struct MemoryTables {
    link_layer: LinkLayer,
    settings: Settings,
    policies: Vec<Policy>,
    classes: ClassTables,
    node: MemoryNode,
    ipv4: MemoryFamily<Ipv4>,
    ipv6: MemoryFamily<Ipv6>,
    counters: [Cell<Counter>; COUNTERS_OF_INTERFACE],
    refusal: Cell<Option<Refusal>>,
    refused_scope: Cell<Option<u32>>,
    pass_all_until: Instant,
    detection_limit: BanBudgets,
    detection_rings: [[AtomicU64; SLOTS as usize]; Standing::COUNT],
    discovered: Cell<u64>,
    new_sources: Budget,
    taken: [Cell<u64>; 2],
    budget_shares: [Cell<Share>; 2],
    tally: Cell<Tally>,
    banned: Cell<Option<(IpAddr, Detected)>>,
}

impl MemoryTables {
    /// Tables with these policies and without lists. A source is what the masks keep of an address.
    #[must_use]
    pub fn new(settings: Settings, policies: Vec<Policy>, masks: (Ipv4, Ipv6)) -> Self {
        Self {
            link_layer: LinkLayer::default(),
            settings,
            policies,
            classes: ClassTables::default(),
            node: MemoryNode::default(),
            ipv4: MemoryFamily::new(masks.0),
            ipv6: MemoryFamily::new(masks.1),
            counters: [const {
                Cell::new(Counter {
                    packets: 0,
                    bytes: 0,
                })
            }; COUNTERS_OF_INTERFACE],
            refusal: Cell::new(None),
            refused_scope: Cell::new(None),
            pass_all_until: Instant::from_nanos(u64::MAX),
            detection_limit: BanBudgets::default(),
            detection_rings: Default::default(),
            discovered: Cell::new(0),
            new_sources: Budget::default(),
            taken: Default::default(),
            budget_shares: Default::default(),
            tally: Cell::default(),
            banned: Cell::new(None),
        }
    }

    /// Keeps the state of sources in `compact` tables of so many sets, in place of one that forgets nothing. The policies say
    /// which of them are theirs.
    #[must_use]
    pub fn compact(mut self, sets: u32, seeds: [u64; 2]) -> Self {
        let mix = Mix::new(seeds);
        self.ipv4.set_compact(MemoryCompact::new(sets, mix));
        self.ipv6.set_compact(MemoryCompact::new(sets, mix));
        self
    }

    /// Keeps the state of so many sources of a family, and forgets those that were not seen for longest.
    #[must_use]
    pub fn lru(self, capacity: u32) -> Self {
        self.ipv4.set_capacity(capacity);
        self.ipv6.set_capacity(capacity);
        self
    }

    /// How often a source lost its state to another: was forgotten, or gave its slot, with what it had used, to a newcomer.
    #[must_use]
    pub fn evicted(&self) -> u64 {
        self.ipv4.evicted() + self.ipv6.evicted()
    }

    /// Reads frames as they come on interfaces with this link layer.
    #[must_use]
    pub fn with_link_layer(mut self, link_layer: LinkLayer) -> Self {
        self.link_layer = link_layer;
        self
    }

    /// Judges as a real-time kernel does, where packets on one CPU interrupt each other: it keeps no shares.
    #[must_use]
    pub const fn interruptible(mut self) -> Self {
        self.node.keep_no_shares();
        self
    }

    /// Sets the arrays by which the classes of a packet are looked up.
    pub fn set_classes(&mut self, classes: ClassTables) {
        self.classes = classes;
    }

    /// Sets the wider prefixes that have limits, of IPv4 and of IPv6.
    pub fn set_aggregates(&mut self, ipv4: Aggregates, ipv6: Aggregates) {
        self.ipv4.set_aggregates(ipv4);
        self.ipv6.set_aggregates(ipv6);
    }

    /// Sets the end of a time in which everything passes, where the settings say that there is one; without this none.
    pub const fn set_pass_all_until(&mut self, until: Instant) {
        self.pass_all_until = until;
    }

    /// Sets how many bans policies may make; without this none.
    pub fn set_detection_limit(&mut self, limit: BanBudgets) {
        self.detection_limit = limit;
    }

    /// Sets how many sources may get state, where the settings say that they have a budget.
    pub fn set_new_sources(&mut self, budget: Budget) {
        self.new_sources = budget;
    }

    /// What was taken of the budgets for new sources and for their crowds, and what the CPU has drawn and not spent.
    #[must_use]
    pub fn budgets(&self) -> (Taken, BudgetShares) {
        let shares = self.budget_shares.each_ref().map(Cell::get);
        (self.taken.each_ref().map(Cell::get), shares)
    }

    /// Sets the word of the budget of neighbour discovery.
    pub fn set_discovered(&self, word: u64) {
        self.discovered.set(word);
    }

    /// The word of the budget of neighbour discovery.
    #[must_use]
    pub fn discovered(&self) -> u64 {
        self.discovered.get()
    }

    /// What became of the sources that policies were to ban.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally.get()
    }

    /// Sets what the lists say about the addresses of `prefix` that no longer prefix matches.
    pub fn set_list_entry(&mut self, prefix: Prefix, entry: ListEntry) {
        match prefix.address() {
            IpAddr::V4(address) => self
                .ipv4
                .set_list_entry(address.into(), prefix.len(), entry),
            IpAddr::V6(address) => self
                .ipv6
                .set_list_entry(address.into(), prefix.len(), entry),
        }
    }

    /// Judges a frame that arrived at `now`, and counts it.
    pub fn judge(&self, frame: Cursor<'_>, now: Instant) -> Verdict {
        self.refused_scope.set(None);
        decide(frame, now, &At { tables: self })
    }

    /// Why the source of a packet was refused, since this was last asked; `None` when none was.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// The source that a policy has banned, and how, since this was last asked; `None` when none was.
    pub fn take_banned(&self) -> Option<(IpAddr, Detected)> {
        self.banned.take()
    }

    /// Puts another ban in the place of the one that a policy made of a source; `None` lifts it.
    pub fn set_detected(&self, source: IpAddr, ban: Option<Detected>) {
        match source {
            IpAddr::V4(source) => self.ipv4.set_detected(source.into(), ban),
            IpAddr::V6(source) => self.ipv6.set_detected(source.into(), ban),
        }
    }

    /// The scope of the policy, of a source or of a prefix around it, that refused the packet that was judged last.
    #[must_use]
    pub const fn refused_scope(&self) -> Option<u32> {
        self.refused_scope.get()
    }

    /// The packets of `family` that got `verdict`.
    #[must_use]
    pub fn counter(&self, family: Family, verdict: Verdict) -> Counter {
        self.cell(family, verdict).get()
    }

    /// The lists and sources of IPv4.
    #[must_use]
    pub const fn ipv4(&self) -> &MemoryFamily<Ipv4> {
        &self.ipv4
    }

    /// The lists and sources of IPv6.
    #[must_use]
    pub const fn ipv6(&self) -> &MemoryFamily<Ipv6> {
        &self.ipv6
    }

    /// What was used of the node's limits.
    #[must_use]
    pub const fn node(&self) -> &MemoryNode {
        &self.node
    }

    fn cell(&self, family: Family, verdict: Verdict) -> &Cell<Counter> {
        &self.counters[counter_index(INTERFACE, family, verdict) as usize]
    }
}

/// The tables, as they are for one packet.
struct At<'a> {
    tables: &'a MemoryTables,
}

impl Tables for At<'_> {
    type Node<'a>
        = &'a MemoryNode
    where
        Self: 'a;

    fn link_layer(&self) -> LinkLayer {
        self.tables.link_layer
    }

    fn settings(&self) -> Settings {
        self.tables.settings
    }

    fn pass_all_until(&self) -> Instant {
        self.tables.pass_all_until
    }

    fn policy(&self, index: u32) -> Option<&Policy> {
        self.tables.policies.get(usize::try_from(index).ok()?)
    }

    fn classes_of(&self, kind: Kind) -> ClassSet {
        at(self.tables.classes.by_kind(), kind.index())
    }

    fn classes_from(&self, port: u32) -> ClassSet {
        at(self.tables.classes.from_port(), port)
    }

    fn classes_to(&self, port: u32) -> ClassSet {
        at(self.tables.classes.to_port(), port)
    }

    fn node(&self) -> &MemoryNode {
        &self.tables.node
    }

    fn admits(&self, newcomer: Newcomer, now: Instant) -> bool {
        let taken = MemoryWord(&self.tables.taken[newcomer as usize]);
        if !(&self.tables.node).keeps_shares() {
            return self.tables.new_sources.take_one(&taken, now);
        }
        let share = &self.tables.budget_shares[newcomer as usize];
        let next = self.tables.new_sources.take(&taken, share.get(), now);
        next.map(|next| share.set(next)).is_some()
    }

    fn admits_neighbour_discovery(&self, now: Instant) -> bool {
        let word = &self.tables.discovered;
        let next = neighbour_discovery::step(word.get(), now);
        next.map(|next| word.set(next)).is_some()
    }

    fn may_detect(&self, standing: Standing, now: Instant) -> bool {
        let ring = AtomicRing(&self.tables.detection_rings[standing as usize]);
        self.tables.detection_limit.of(standing).take(&ring, now)
    }

    fn count_detection(&self, detection: Detection) {
        let mut tally = self.tables.tally.get();
        tally.detections[detection as usize] += 1;
        self.tables.tally.set(tally);
    }

    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32) {
        let cell = self.tables.cell(family, verdict);
        let Counter { packets, bytes } = cell.get();
        cell.set(Counter {
            packets: packets.wrapping_add(1),
            bytes: bytes.wrapping_add(frame_bytes.into()),
        });
    }
}

impl<A: InMemory> FamilyTables<A> for At<'_> {
    type Words<'a>
        = MemoryWords<'a>
    where
        Self: 'a;

    fn source_mask(&self) -> A {
        A::family(self.tables).source_mask()
    }

    fn aggregates(&self) -> Aggregates {
        A::family(self.tables).aggregates()
    }

    fn listed(&self, address: A, now: Instant) -> Listed {
        let entry = A::family(self.tables).list_entry(address);
        entry.map(|entry| entry.at(now)).unwrap_or_default()
    }

    fn words(&self, key: &SourceKey<A>) -> Option<MemoryWords<'_>> {
        A::family(self.tables).words(key)
    }

    fn insert(&self, key: &SourceKey<A>) -> Result<(), InsertError> {
        A::family(self.tables).insert(key)
    }

    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let is_needed = |policy| new_sources::is_needed(policy, self);
        let is_new = |policy| !A::family(self.tables).is_known(*address, policy, arrival);
        // Where the store is `compact`, every source has words: those that it would take over.
        if policy
            .is_some_and(|policy| is_needed(policy) && policy.counts(arrival) && is_new(policy))
        {
            return Outcome::PASSED;
        }
        let outcome = state::check(address, policy, arrival, self);
        let scope = &self.tables.refused_scope;
        // The refusal that counts: the first by limits in force, else the first by a dry run.
        if outcome.is_enforced() || (outcome.is_refused() && scope.get().is_none()) {
            scope.set(policy.map(Policy::scope));
        }
        outcome
    }

    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let family = A::family(self.tables);
        if let Some(policy) = policy.filter(|policy| policy.counts(arrival))
            && family.compact().is_some()
            && new_sources::is_needed(policy, self)
            && !family.is_known(*address, policy, arrival)
            && new_sources::is_beyond(address, policy, arrival.at, self)
        {
            return new_sources::BEYOND.observed_if(policy.observe());
        }
        state::charge(address, policy, arrival, self)
    }

    fn detected(&self, source: &A) -> Option<Detected> {
        A::family(self.tables).detected(*source)
    }

    fn count_refusal(&self, source: &A, now: Instant) {
        A::family(self.tables).count_refusal(*source, now);
    }

    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool {
        A::family(self.tables).count_strike(*source, rule, now)
    }

    /// There is no network here: nobody is connected.
    fn is_connected(&self, _: &Strike<'_>) -> bool {
        false
    }

    fn ban(&self, source: &A, ban: Detected) -> bool {
        A::family(self.tables).set_detected(*source, Some(ban));
        self.tables.banned.set(Some((source.to_std(), ban)));
        true
    }

    fn sample(&self, _: A, refusal: Refusal) {
        self.tables.refusal.set(Some(refusal));
    }
}

fn at(classes: &[ClassSet], index: u32) -> ClassSet {
    classes.get(index as usize).copied().unwrap_or_default()
}

/// The address families, each with its part of the tables.
trait InMemory: Address + IpAddress + std::hash::Hash {
    fn family(tables: &MemoryTables) -> &MemoryFamily<Self>;
}

impl InMemory for Ipv4 {
    fn family(tables: &MemoryTables) -> &MemoryFamily<Self> {
        &tables.ipv4
    }
}

impl InMemory for Ipv6 {
    fn family(tables: &MemoryTables) -> &MemoryFamily<Self> {
        &tables.ipv6
    }
}
