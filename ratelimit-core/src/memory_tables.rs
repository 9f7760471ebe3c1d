//! The tables of the datapath in memory: the second implementation of [`Tables`], for simulations
//! and tests.
//!
//! It decides like the kernel. With the store `lru` it evicts only if a capacity is set; sliding
//! logs and strikes are never evicted.

mod challenge;
mod compact;
mod family;
mod node;
mod recent;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::atomic::AtomicU64,
};

use challenge::MemoryChallenge;
pub use compact::MemoryCompact;
use family::{MemoryDenial, MemoryWord};
pub use family::{MemoryFamily, MemoryRing, MemoryWords, REFUSED_SETS};
pub use node::MemoryNode;
use ratelimit_common::{
    Address, Arrival, BanBudgets, BanRule, ClassSet, Cursor, Evidence, Family, Flow, Instant, Ipv4,
    Ipv6, ListEntry, Policy, PolicyBan, Settings, SourceKey, Tables, Verdict,
    aggregate::Aggregates,
    ban_budget::SLOTS,
    challenge::{
        ChallengeState, Effect, Key, Period, Rules, Shared, Traffic, Verified,
        cookie::{self, Message},
        is_unproved, judge_packet, upper,
    },
    charge::{Outcome, Refusal},
    class::Property,
    classify::{self, Wanted},
    compact::Mix,
    decide,
    layout::{COUNTERS, Counter, INTERFACES_MAX, counter_index},
    list::Listed,
    neighbour_discovery,
    new_sources::{Budget, BudgetShares, Newcomer, UsedBudgets},
    node::{PooledLimits as _, Share},
    parse::{self, Connection, Inner, LinkLayer, Tunnels, ipv6},
    policy_ban::{BanResult, Tally},
    refused, source_limits,
    store::{InsertError, Store},
    strikes::Strike,
    tables::FamilyTables,
};

use crate::{
    atomic_ring::AtomicRing, class_tables::ClassTables, ip_family::IpAddress, prefix::Prefix,
};

/// Every interface is the first one.
const INTERFACE: u32 = 0;
const COUNTERS_OF_INTERFACE: usize = (COUNTERS / INTERFACES_MAX) as usize;

/// Settings, policies, lists, and the state left by earlier packets.
#[derive(Debug)]
pub struct MemoryTables {
    link_layer: LinkLayer,
    tunnels: Tunnels,
    settings: Settings,
    policies: Vec<Policy>,
    /// The arrays by which the classes of a packet are looked up.
    pub classes: ClassTables,
    /// Usage of the node's limits.
    pub node: MemoryNode,
    /// The lists and sources of IPv4.
    pub ipv4: MemoryFamily<Ipv4>,
    /// The lists and sources of IPv6.
    pub ipv6: MemoryFamily<Ipv6>,
    counters: [Cell<Counter>; COUNTERS_OF_INTERFACE],
    entry_counters: RefCell<BTreeMap<u16, Counter>>,
    refusal: Cell<Option<Refusal>>,
    refused_scope: Cell<Option<u32>>,
    /// The time until which packets look up the words by which a limit refused a source.
    asked_until_ns: Cell<u64>,
    /// The end of a time in which everything passes, where the settings say that there is one.
    pub pass_all_until: Instant,
    /// The budgets for bans by policies; initially none.
    pub ban_budgets: BanBudgets,
    ban_rings: [[AtomicU64; SLOTS as usize]; Evidence::COUNT],
    /// The word of the budget of neighbour discovery.
    pub discovered: Cell<u64>,
    /// The budget for new sources, which the settings enable.
    pub new_sources: Budget,
    challenge: MemoryChallenge,
    taken: [Cell<u64>; 2],
    budget_shares: [Cell<Share>; 2],
    tally: Cell<Tally>,
    banned: Cell<Option<(IpAddr, PolicyBan)>>,
}

impl MemoryTables {
    /// Tables with these policies and without lists. A source is what the masks keep of an address.
    pub fn new(settings: Settings, policies: Vec<Policy>, masks: (Ipv4, Ipv6)) -> Self {
        Self {
            link_layer: LinkLayer::default(),
            tunnels: Tunnels::NONE,
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
            entry_counters: RefCell::default(),
            refusal: Cell::new(None),
            refused_scope: Cell::new(None),
            asked_until_ns: Cell::new(0),
            pass_all_until: Instant::from_nanos(u64::MAX),
            ban_budgets: BanBudgets::default(),
            ban_rings: Default::default(),
            discovered: Cell::new(0),
            new_sources: Budget::default(),
            challenge: MemoryChallenge::default(),
            taken: Default::default(),
            budget_shares: Default::default(),
            tally: Cell::default(),
            banned: Cell::new(None),
        }
    }

    /// Keeps the state of sources in `compact` tables with this many sets. The policies contain
    /// their regions.
    pub fn compact(mut self, sets: u32, seeds: [u64; 2]) -> Self {
        let mix = Mix::new(seeds);
        self.ipv4.compact = Some(MemoryCompact::new(sets, mix));
        self.ipv6.compact = Some(MemoryCompact::new(sets, mix));
        self
    }

    /// Keeps the state of this many sources per family, and evicts the least recently seen ones.
    pub fn lru(self, capacity: u32) -> Self {
        self.ipv4.set_capacity(capacity);
        self.ipv6.set_capacity(capacity);
        self
    }

    /// Returns how often a source lost its state to another: in `lru` by eviction, in `compact` by
    /// handing its slot and usage to a newcomer.
    pub fn evicted(&self) -> u64 {
        self.ipv4.evicted() + self.ipv6.evicted()
    }

    /// Reads frames as they come on interfaces with this link layer.
    pub fn with_link_layer(mut self, link_layer: LinkLayer) -> Self {
        self.link_layer = link_layer;
        self
    }

    /// Judges packets inside of these tunnels by their own source.
    pub const fn with_tunnels(mut self, tunnels: Tunnels) -> Self {
        self.tunnels = tunnels;
        self
    }

    /// Judges as a real-time kernel does, where packets on one CPU interrupt each other: it keeps
    /// no shares.
    pub const fn interruptible(mut self) -> Self {
        self.node.keep_no_shares();
        self
    }

    /// The packets that matched what a slot counts for.
    pub fn entry_counter(&self, slot: u16) -> Counter {
        self.entry_counters
            .borrow()
            .get(&slot)
            .copied()
            .unwrap_or_default()
    }

    /// Sets the wider prefixes that have limits, of IPv4 and of IPv6.
    pub fn set_aggregates(&mut self, ipv4: Aggregates, ipv6: Aggregates) {
        self.ipv4.aggregates = ipv4;
        self.ipv6.aggregates = ipv6;
    }

    /// Sets when sources are challenged, where the settings say that they may be, and what cookies
    /// are keyed with.
    pub fn set_challenge(&mut self, rules: Rules, key: Key) {
        self.challenge = MemoryChallenge::new(&rules, key);
    }

    /// Notes that a source has proved itself.
    pub fn verify(&self, source: IpAddr, now: Instant) {
        let until = now.as_nanos() + self.challenge.rules.lasts_ns();
        let verified = Verified::here(Instant::from_nanos(until));
        match source {
            IpAddr::V4(source) => self.ipv4.verify(source.into(), verified),
            IpAddr::V6(source) => self.ipv6.verify(source.into(), verified),
        }
    }

    /// Notes that this host has an established TCP connection with `peer` at its own end.
    pub fn connect(&mut self, peer: SocketAddr, own: SocketAddr) {
        let ports = [peer, own].map(|end| end.port().to_be_bytes());
        match [peer.ip(), own.ip()] {
            [IpAddr::V4(peer), IpAddr::V4(own)] => self.ipv4.connect(Connection {
                addresses: [peer.into(), own.into()],
                ports,
            }),
            [IpAddr::V6(peer), IpAddr::V6(own)] => self.ipv6.connect(Connection {
                addresses: [peer.into(), own.into()],
                ports,
            }),
            [IpAddr::V4(_), IpAddr::V6(_)] | [IpAddr::V6(_), IpAddr::V4(_)] => {}
        }
    }

    /// Returns the usage of the budgets for new sources and overflow buckets, and the unspent
    /// shares of the CPU.
    pub fn budgets(&self) -> (UsedBudgets, BudgetShares) {
        let shares = self.budget_shares.each_ref().map(Cell::get);
        (self.taken.each_ref().map(Cell::get), shares)
    }

    /// Returns the results of bans by policies.
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
        let settings = Cell::new(self.settings);
        decide(
            frame,
            now,
            &At {
                tables: self,
                settings,
            },
        )
    }

    /// Takes the refusal of the source of a packet since the last call; `None` if none was refused.
    pub fn take_refusal(&self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// The source that a policy has banned, and how, since this was last asked; `None` when none
    /// was.
    pub fn take_banned(&self) -> Option<(IpAddr, PolicyBan)> {
        self.banned.take()
    }

    /// Puts another ban in the place of the one that a policy made of a source; `None` lifts it.
    pub fn set_policy_ban(&self, source: IpAddr, ban: Option<PolicyBan>) {
        match source {
            IpAddr::V4(source) => self.ipv4.set_policy_ban(source.into(), ban),
            IpAddr::V6(source) => self.ipv6.set_policy_ban(source.into(), ban),
        }
    }

    /// The scope of the policy, of a source or of a prefix around it, that refused the packet that
    /// was judged last.
    pub const fn refused_scope(&self) -> Option<u32> {
        self.refused_scope.get()
    }

    /// The packets of `family` that got `verdict`.
    pub fn counter(&self, family: Family, verdict: Verdict) -> Counter {
        self.cell(family, verdict).get()
    }

    fn cell(&self, family: Family, verdict: Verdict) -> &Cell<Counter> {
        &self.counters[counter_index(INTERFACE, family, verdict) as usize]
    }
}

/// The tables, as they are for one packet.
struct At<'a> {
    tables: &'a MemoryTables,
    settings: Cell<Settings>,
}

impl Tables for At<'_> {
    type PooledLimits<'a>
        = &'a MemoryNode
    where
        Self: 'a;

    fn link_layer(&self) -> LinkLayer {
        self.tables.link_layer
    }

    fn inner(&self, frame: Cursor<'_>) -> Inner {
        let Self { tables, .. } = self;
        let walk = ipv6::walk;
        tables
            .tunnels
            .inner(frame, tables.link_layer, walk, |it| it)
    }

    fn settings(&self) -> Settings {
        self.settings.get()
    }

    fn exclude_from_reserve(&self) {
        self.settings
            .set(self.settings.get().excluded_from_reserve());
    }

    fn pass_all_until(&self) -> Instant {
        self.tables.pass_all_until
    }

    fn policy(&self, index: u32) -> Option<&Policy> {
        self.tables.policies.get(usize::try_from(index).ok()?)
    }

    fn excluded(&self, property: Property, value: u32) -> ClassSet {
        self.tables.classes.excluded(property, value)
    }

    fn node(&self) -> &MemoryNode {
        &self.tables.node
    }

    fn admits_neighbour_discovery(&self, now: Instant) -> bool {
        let word = &self.tables.discovered;
        let next = neighbour_discovery::step(word.get(), now);
        next.map(|next| word.set(next)).is_some()
    }

    fn take_ban(&self, evidence: Evidence, now: Instant) -> bool {
        let ring = AtomicRing(&self.tables.ban_rings[evidence as usize]);
        self.tables.ban_budgets.of(evidence).take(&ring, now)
    }

    fn count_ban_result(&self, result: BanResult) {
        let mut tally = self.tables.tally.get();
        tally.results[result as usize] += 1;
        self.tables.tally.set(tally);
    }

    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32) {
        let cell = self.tables.cell(family, verdict);
        cell.set(cell.get().with(frame_bytes));
    }

    fn count_entry(&self, listed: Listed, frame_bytes: u32) {
        let slot = listed.slot();
        if slot != 0 {
            let mut counters = self.tables.entry_counters.borrow_mut();
            let counter = counters.entry(slot).or_default();
            *counter = counter.with(frame_bytes);
        }
    }
}

impl<A: InMemory> FamilyTables<A> for At<'_> {
    fn source_mask(&self) -> A {
        A::family(self.tables).source_mask
    }

    fn aggregates(&self) -> Aggregates {
        A::family(self.tables).aggregates
    }

    fn listed(&self, address: A, now: Instant) -> Listed {
        let entry = A::family(self.tables).list_entry(address);
        entry.map(|entry| entry.at(now)).unwrap_or_default()
    }

    fn policy_ban(&self, source: &A) -> Option<PolicyBan> {
        A::family(self.tables).policy_ban(*source)
    }

    fn count_refusal(&self, source: &A, now: Instant) {
        A::family(self.tables).count_refusal(*source, now);
    }

    fn count_shared_refusal(&self, address: Option<&A>, policy: &Policy, now: Instant) {
        if let Some(shared) = refused::shared(policy.scope(), address) {
            self.tables.ipv6.count_refusal(shared, now);
        }
    }

    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool {
        A::family(self.tables).count_strike(*source, rule, now)
    }

    fn confirm_strike(
        &self,
        source: &A,
        policy: &Policy,
        strike: &Strike<'_>,
        is_connected: bool,
    ) -> bool {
        policy.ban().is_some_and(|rule| {
            A::family(self.tables).confirm_strike(*source, rule, is_connected, strike.at)
        })
    }

    /// Looks among the connections that were added with [`MemoryTables::connect`].
    fn is_connected(&self, frame: Cursor<'_>) -> bool {
        let (link_layer, inner) = (self.link_layer(), self.inner(frame));
        let wanted = parse::Wanted::Segment;
        let connection = Connection::of(frame, link_layer, inner, wanted, ipv6::walk, |it| it);
        connection.is_some_and(|connection| A::family(self.tables).has(&connection))
    }

    fn is_unproved(&self, source: &A, strike: &Strike<'_>) -> bool {
        let (frame, link_layer) = (strike.frame, self.link_layer());
        if self.inner(frame) != Inner::NONE {
            return false;
        }
        let Some(upper) = upper::<A>(frame, link_layer, ipv6::walk) else {
            return false;
        };
        let classes = |headers| {
            let wanted = Wanted::by_challenge(headers);
            classify::classes(frame, upper, wanted, self)
        };
        is_unproved(source, frame, link_layer, upper, classes, strike.at, self)
    }

    fn is_exempt(&self, source: &A) -> bool {
        let ban = self.policy_ban(source);
        ban.is_some_and(|ban| ban.is_exempt())
    }

    fn ban(&self, source: &A, ban: PolicyBan) -> bool {
        A::family(self.tables).set_policy_ban(*source, Some(ban));
        self.tables.banned.set(Some((source.to_std(), ban)));
        true
    }

    fn sample(&self, _: A, refusal: Refusal) {
        self.tables.refusal.set(Some(refusal));
    }

    fn challenge(
        &self,
        source: &A,
        frame: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> Effect {
        judge_packet(source, frame, flow, listed, now, self)
    }

    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let outcome = source_limits::check(address, policy, arrival, self);
        self.note(policy, outcome);
        outcome
    }

    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::charge(address, policy, arrival, self)
    }

    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        source_limits::charge_source(source, policy, arrival, self, self)
    }
}

impl<A: InMemory> ChallengeState<A> for At<'_> {
    fn rules(&self) -> Option<&Rules> {
        Some(&self.tables.challenge.rules)
    }

    fn cookie(&self, message: &Message) -> u32 {
        cookie::hash(self.tables.challenge.key, message)
    }

    fn takes(&self, which: Shared, now: Instant) -> bool {
        let keeps_shares = (&self.tables.node).keeps_shares();
        self.tables.challenge.takes(which, now, keeps_shares)
    }

    fn may_answer(&self, source: &A, now: Instant) -> bool {
        A::family(self.tables).may_answer(*source, &self.tables.challenge.rules, now)
    }

    fn until(&self, traffic: Traffic) -> Instant {
        Instant::from_nanos(self.tables.challenge.on[traffic as usize].get().until_ns)
    }

    fn set_until(&self, traffic: Traffic, until: Instant) {
        let on = &self.tables.challenge.on[traffic as usize];
        on.set(Period {
            until_ns: until.as_nanos(),
            ..on.get()
        });
    }

    fn set_since(&self, traffic: Traffic, since: Instant) {
        let on = &self.tables.challenge.on[traffic as usize];
        on.set(Period {
            since_ns: since.as_nanos(),
            ..on.get()
        });
    }

    fn verified(&self, source: &A) -> Option<Verified> {
        A::family(self.tables).verified(source)
    }

    fn verify(&self, source: &A, verified: Verified) {
        A::family(self.tables).verify(*source, verified);
    }
}

impl At<'_> {
    /// Records the refusal to report: the first of a limit in force, otherwise the first of a dry
    /// run.
    fn note(&self, policy: Option<&Policy>, outcome: Outcome) {
        let scope = &self.tables.refused_scope;
        if outcome.is_enforced() || (outcome.is_refused() && scope.get().is_none()) {
            scope.set(policy.map(Policy::scope));
        }
    }
}

impl<A: InMemory> Store<A> for At<'_> {
    type Key<'a>
        = SourceKey<A>
    where
        Self: 'a;
    type Words<'a>
        = MemoryWords<'a>
    where
        Self: 'a;
    type Denial<'a>
        = MemoryDenial
    where
        Self: 'a;

    fn key(&self, source: &A, scope: u32) -> SourceKey<A> {
        SourceKey::new(*source, scope)
    }

    fn words<'a>(&'a self, key: &'a SourceKey<A>) -> Option<MemoryWords<'a>> {
        A::family(self.tables).words(key)
    }

    fn insert(&self, key: &SourceKey<A>) -> Result<(), InsertError> {
        A::family(self.tables).insert(key)
    }

    fn admits(&self, newcomer: Newcomer, arrival: &Arrival) -> bool {
        let taken = MemoryWord(&self.tables.taken[newcomer as usize]);
        if !(&self.tables.node).keeps_shares() {
            return self.tables.new_sources.take_one(&taken, arrival.at);
        }
        let share = &self.tables.budget_shares[newcomer as usize];
        let next = self
            .tables
            .new_sources
            .take(&taken, share.get(), arrival.at);
        next.map(|next| share.set(next)).is_some()
    }

    fn is_budget_spent(&self, arrival: &Arrival) -> bool {
        let [taken, _] = &self.tables.taken;
        let [share, _] = &self.tables.budget_shares;
        self.tables
            .new_sources
            .is_spent(&MemoryWord(taken), share.get(), arrival.at)
    }

    fn is_denied(
        &self,
        source: &A,
        scope: u32,
        at: Instant,
        refuses: impl FnOnce(MemoryDenial) -> bool,
    ) -> bool {
        at.as_nanos() < self.tables.asked_until_ns.get()
            && refused::may_refuse(at)
            && (&self.tables.node).keeps_shares()
            && A::family(self.tables).is_denied(source, scope, at, refuses)
    }

    fn keep_denial(&self, key: &SourceKey<A>, words: &MemoryWords<'_>, at: Instant) {
        if (&self.tables.node).keeps_shares() {
            let until_ns = &self.tables.asked_until_ns;
            until_ns.set(refused::noted(until_ns.get(), at).unwrap_or(until_ns.get()));
            A::family(self.tables).keep_denial(key, words);
        }
    }
}

/// The address families, each with its part of the tables.
trait InMemory: Address + IpAddress + std::hash::Hash + Default {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratelimit_common::{DropReason, Limit, PassReason, Unit, algorithm::FixedWindow};

    use super::*;

    /// A time at which cached denials may refuse.
    const NOW: u64 = (1 << 40) + (1 << 12);
    const LIMITED: Verdict = Verdict::Drop(DropReason::Limited);
    const CONFORMING: Verdict = Verdict::Pass(PassReason::Conforming);

    #[test]
    fn a_source_that_lost_its_state_is_refused_by_its_cached_denial_as_in_the_kernel() {
        let asked = NOW + (15 << 12);
        assert_eq!(after_eviction(&tables(), NOW), LIMITED);
        assert_eq!(after_eviction(&tables(), asked), CONFORMING);
        assert_eq!(after_eviction(&tables().interruptible(), NOW), CONFORMING);
    }

    /// Returns the verdict on a packet of a source that was refused, and then lost its state to
    /// another.
    fn after_eviction(tables: &MemoryTables, at: u64) -> Verdict {
        let judge = |host, at| tables.judge(Cursor::new(&frame(host)), Instant::from_nanos(at));
        let verdicts = [1, 1, 2].map(|host| judge(host, NOW));
        assert_eq!(verdicts, [CONFORMING, LIMITED, CONFORMING]);
        assert_eq!(tables.evicted(), 1);
        judge(1, at)
    }

    /// Room for the state of one source, which may send one packet a second.
    fn tables() -> MemoryTables {
        let window = FixedWindow::new(1, Duration::from_secs(1)).unwrap();
        let policy = Policy::new(&[Limit::new(window, Unit::Packets)], 0, false).unwrap();
        let masks = (Ipv4::new([0xff; 4]), Ipv6::new([0xff; 16]));
        MemoryTables::new(Settings::new(0, false), vec![policy], masks).lru(1)
    }

    fn frame(host: u8) -> [u8; 34] {
        let mut frame = [0; 34];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[26..30].copy_from_slice(&[192, 0, 2, host]);
        frame
    }
}
