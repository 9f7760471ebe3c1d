//! The tables of the pipeline, in BPF maps.

use core::{cell::Cell, ptr};

use ratelimit_common::{
    Arrival, BanRule, ClassSet, Cursor, Evidence, Family, Flow, Instant, Policy, PolicyBan,
    Settings, Tables, Verdict,
    aggregate::Aggregates,
    challenge::{Effect, is_unchallenged},
    charge::{Outcome, Refusal},
    class::Property,
    classify::{Classified, Wanted},
    cpu_state::CpuState,
    frame_size,
    layers::NO_DESTINATION,
    layout::{self, Counter, counter_index},
    lease::Demanded,
    list::Listed,
    node::{NOT_DRAWN, spend_one},
    parse::{self, Inner, LinkLayer, ipv6::Walk, transport::UpperLayer},
    policy_ban::{BanResult, rule},
    sample::Socket,
    source_limits,
    strikes::Strike,
    tables::FamilyTables,
};

use crate::{
    capture,
    challenge::{self, MapChallenge},
    classify,
    compact::{self, SlotStore},
    connection, ends, events,
    frame::{self, Context},
    headers, interface, interruption, leases, limits, lists,
    lru::Records,
    maps::{AGGREGATES, ENTRY_COUNTERS, EXCLUDED_CLASSES, FamilyMaps, POLICIES, VERDICTS},
    neighbour_discovery,
    node::{self, MapNode},
    policy_ban, refused,
    strikes::{self, StrikeBits},
    subprogram::{self, Packet},
};

/// The maps, as they are for one packet.
pub struct KernelTables {
    now: Instant,
    context: *mut Context,
    settings: Cell<Settings>,
    inner: Inner,
    /// This CPU's state; `None` in a subprogram.
    cpu_state: Option<*mut CpuState>,
}

impl KernelTables {
    /// The tables for the packet of `context`, at `now`, by settings that are read once for a
    /// packet.
    #[inline(always)]
    pub const fn new(context: *mut Context, now: Instant, settings: Settings) -> Self {
        Self {
            now,
            context,
            settings: Cell::new(settings),
            inner: Inner::NONE,
            cpu_state: None,
        }
    }

    /// Returns the tables for a packet that has this inner packet.
    #[inline(always)]
    pub const fn with_inner(self, inner: Inner) -> Self {
        Self { inner, ..self }
    }

    /// The tables on the CPU that keeps this.
    #[inline(always)]
    pub const fn with_of_cpu(self, cpu_state: *mut CpuState) -> Self {
        Self {
            cpu_state: Some(cpu_state),
            ..self
        }
    }

    /// The tables for a packet after all headers were read. They contain the flags for limits from
    /// its settings.
    #[inline(always)]
    pub const fn of(arrival: &Arrival) -> Self {
        Self::new(ptr::null_mut(), arrival.at, arrival.settings)
    }

    /// Creates tables for code that reads no settings.
    #[inline(always)]
    pub const fn without_settings(context: *mut Context, now: Instant) -> Self {
        Self::new(context, now, Settings::new(0, false))
    }

    /// Returns the index of the policy of the node, or none.
    #[inline(always)]
    fn node_policy(&self) -> u32 {
        self.settings.get().node_policy().unwrap_or(NO_DESTINATION)
    }
}

impl Tables for KernelTables {
    type PooledLimits<'a> = MapNode;

    #[cfg(feature = "tcx")]
    #[inline(always)]
    fn taken_vlan(&self) -> Option<u32> {
        frame::taken_vlan(self.context)
    }

    #[inline(always)]
    fn link_layer(&self) -> LinkLayer {
        interface::link_layer()
    }

    #[inline(always)]
    fn inner(&self, _: Cursor<'_>) -> Inner {
        self.inner
    }

    #[inline(always)]
    fn without_bounds(&self, number: u32, now: Instant) -> u32 {
        subprogram::without_bounds(number.into(), now) as u32
    }

    #[inline(always)]
    fn settings(&self) -> Settings {
        self.settings.get()
    }

    #[inline(always)]
    fn exclude_from_reserve(&self) {
        self.settings
            .set(self.settings.get().excluded_from_reserve());
    }

    #[inline(always)]
    fn pass_all_until(&self) -> Instant {
        ends::of(layout::ends::PASS_ALL)
    }

    #[inline(always)]
    fn policy(&self, index: u32) -> Option<&Policy> {
        POLICIES.get(index)
    }

    #[inline(always)]
    fn excluded(&self, property: Property, value: u32) -> ClassSet {
        let entry = property.start().wrapping_add(value);
        EXCLUDED_CLASSES.get(entry).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn excluded_by_destination(&self, _: Cursor<'_>) -> ClassSet {
        classify::excluded_by_destination(self.context, self.inner)
    }

    #[inline(always)]
    fn node(&self) -> MapNode {
        MapNode
    }

    #[inline(always)]
    fn admits_neighbour_discovery(&self, now: Instant) -> bool {
        neighbour_discovery::take_neighbour_discovery(now)
    }

    #[inline(always)]
    fn take_ban(&self, evidence: Evidence, now: Instant) -> bool {
        policy_ban::take_ban(evidence, now)
    }

    #[inline(always)]
    fn count_ban_result(&self, result: BanResult) {
        policy_ban::count(result);
    }

    #[inline(always)]
    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32) {
        capture::offer(self.context, verdict);
        let index = interface::first_counter().wrapping_add(counter_index(0, family, verdict));
        if let Some(counter) = VERDICTS.get_ptr_mut(index) {
            add(counter, frame_bytes);
        }
    }

    #[inline(always)]
    fn count_entry(&self, listed: Listed, frame_bytes: u32) {
        if listed.slot() == 0 {
            return;
        }
        // In place it would take stack from all packets.
        if cfg!(feature = "lean") {
            add_in_slot(listed, frame_bytes);
        } else {
            count_in_slot(listed, frame_bytes);
        }
    }

    #[inline(always)]
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk {
        headers::walk(self.context, cursor, first)
    }

    #[inline(always)]
    fn classify(&self, _: Cursor<'_>, upper: UpperLayer, policy: u32) -> Classified {
        let wanted = Wanted::by(self.settings.get());
        classify::classify_packet(self.context, upper, wanted, policy, self.inner)
    }

    /// Policies of one limit each cost no call.
    #[inline(always)]
    fn spend(&self, destination: u32, arrival: &Arrival) -> Outcome {
        let policies = [self.node_policy(), destination];
        let spent = spend_one_each(policies, arrival);
        let spent =
            spent.unwrap_or_else(|| node::spend_shares(self.node_policy(), destination, arrival));
        Outcome::from_bits(self.without_bounds(spent.to_bits(), arrival.at))
    }

    #[inline(always)]
    fn give_back(&self, destination: u32, arrival: &Arrival) {
        node::give_shares_back(self.node_policy(), destination, Packet::of(arrival));
    }
}

subprograms! {
    /// Counts a packet in the slot of what decided about it.
    fn count_in_slot(listed: Listed, frame_bytes: u32) {
        add_in_slot(listed, frame_bytes);
    }
}

#[inline(always)]
fn add_in_slot(listed: Listed, frame_bytes: u32) {
    if let Some(counter) = ENTRY_COUNTERS.get_ptr_mut(listed.slot().into()) {
        add(counter, frame_bytes);
    }
}

/// Adds a packet to a counter of this CPU, the value of a map.
#[inline(always)]
pub fn add(counter: *mut Counter, frame_bytes: u32) {
    // SAFETY: aligned words of a live map value.
    unsafe {
        interruption::add([
            (
                &raw mut (*counter).packets,
                frame_size::packets(frame_bytes).into(),
            ),
            (
                &raw mut (*counter).bytes,
                frame_size::bytes(frame_bytes).into(),
            ),
        ]);
    }
}

impl<A: FamilyMaps> FamilyTables<A> for KernelTables {
    #[inline(always)]
    fn source_mask(&self) -> A {
        A::source_mask()
    }

    #[inline(always)]
    fn aggregates(&self) -> Aggregates {
        let aggregates = AGGREGATES.get(A::FAMILY as u32);
        aggregates.map_or_else(Aggregates::default, |aggregates| {
            *aggregates.of(self.settings.get().generation())
        })
    }

    #[inline(always)]
    fn listed(&self, address: A, now: Instant) -> Listed {
        lists::listed(address, now, self.settings.get(), self.cpu_state)
    }

    #[inline(always)]
    fn may_have_lease(&self, source: &A) -> bool {
        leases::may_be(source)
    }

    #[inline(always)]
    fn leased(&self, source: &A, policy: &Policy, at: Instant) -> u32 {
        leases::leased_by_source(source, policy.scope(), at)
    }

    #[inline(always)]
    fn count_demand(&self, source: &A, policy: &Policy, arrival: &Arrival, demanded: Demanded) {
        leases::count_demand(source, policy, Packet::of(arrival), demanded);
    }

    #[inline(always)]
    fn policy_ban(&self, source: &A) -> Option<PolicyBan> {
        policy_ban::find(source)
    }

    #[inline(always)]
    fn count_refusal(&self, source: &A, now: Instant) {
        refused::count(source, now);
    }

    #[inline(always)]
    fn count_shared_refusal(&self, address: Option<&A>, policy: &Policy, now: Instant) {
        limits::count_shared_refusal(address, policy.scope(), now);
    }

    #[inline(always)]
    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool {
        strikes::count(source, rule, now)
    }

    #[inline(always)]
    fn confirm_strike(
        &self,
        source: &A,
        policy: &Policy,
        strike: &Strike<'_>,
        is_connected: bool,
    ) -> bool {
        strikes::confirm_strike(source, policy, strike.at, is_connected)
    }

    #[inline(always)]
    fn is_connected(&self, _: Cursor<'_>) -> bool {
        connection::socket::<A>(self.context, parse::Wanted::Segment) == Socket::Connected
    }

    #[inline(always)]
    fn is_unproved(&self, source: &A, strike: &Strike<'_>) -> bool {
        challenge::is_unproved(self.context, source, strike.at)
    }

    #[inline(always)]
    fn is_exempt(&self, source: &A) -> bool {
        policy_ban::is_exempt(&*subprogram::on_stack(source))
    }

    #[inline(always)]
    fn ban(&self, source: &A, ban: PolicyBan) -> bool {
        // Here and not before the socket was looked up: that takes the stack.
        let source = subprogram::on_stack(source);
        policy_ban::ban(&*source, &ban, interface::slot())
    }

    #[inline(always)]
    fn sample(&self, source: A, refusal: Refusal) {
        if events::is_due(self.now) {
            let refused = Outcome::refused(refusal.reason, refusal.limit.into());
            events::sample(self.context, &source, refused, interface::slot(), self.now);
        }
    }

    #[inline(always)]
    fn challenge(
        &self,
        source: &A,
        _: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> Effect {
        let settings = self.settings.get();
        if listed.is_protected() {
            return Effect::Unasked;
        }
        let cpu_state = self.cpu_state.unwrap_or(ptr::null_mut());
        // SAFETY: outside of subprograms it is a live map value, and this is never called in one.
        let state = unsafe { MapChallenge::new(settings, self.context, cpu_state) };
        let frame = || frame::whole_by_context(self.context);
        // Packets inside a tunnel do not count for the challenge.
        if self.inner == Inner::NONE && is_unchallenged(source, frame, flow, settings, now, &state)
        {
            return Effect::Unasked;
        }
        core::hint::cold_path();
        challenge::judge_source(self.context, source, flow.upper, settings, now)
    }

    #[inline(always)]
    fn destination(&self, flow: &Flow<A>, now: Instant) -> u32 {
        let settings = self.settings.get();
        lists::cached_destination(flow.destination, settings.generation()).unwrap_or_else(|| {
            lists::find_destination::<A>(self.context, now, settings.generation())
        })
    }

    #[inline(always)]
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        if compact::is_used() {
            return limits::check_slots(address, policy, arrival);
        }
        limits::check_record(address, policy, arrival)
    }

    #[inline(always)]
    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        if compact::is_used() {
            return limits::charge_slots(address, policy, arrival);
        }
        limits::charge_record(address, policy, arrival)
    }

    #[inline(always)]
    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        limits::charge_within_budget(source, policy, arrival)
    }

    #[inline(always)]
    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let outcome = if compact::is_used() {
            source_limits::charge_source(source, policy, arrival, &SlotStore, self)
        } else {
            source_limits::charge_source(source, policy, arrival, &Records(self.cpu_state), self)
        };
        // The usual ones, which the verifier may follow to the end of the lean program. As
        // constants, which the compiler follows, too.
        if cfg!(feature = "lean") {
            match outcome {
                Outcome::PASSED => return Outcome::PASSED,
                Outcome::DENIED => return Outcome::DENIED,
                _ => {}
            }
        }
        Outcome::from_bits(self.without_bounds(outcome.to_bits(), arrival.at))
    }

    #[inline(always)]
    fn charge_leased(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        limits::charge_leased(source, policy, arrival)
    }

    #[inline(always)]
    fn check_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        limits::check_layer(layer, source, policy, arrival)
    }

    #[inline(always)]
    fn charge_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        limits::charge_layer(layer, source, policy, arrival)
    }

    #[inline(always)]
    fn charge_destination(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        limits::charge_destination(source, policy, arrival)
    }

    #[inline(always)]
    fn charge_established(
        &self,
        source: &A,
        policy: Option<&Policy>,
        _: Cursor<'_>,
        arrival: &Arrival,
    ) -> bool {
        limits::charge_established(self.context, source, policy, arrival)
    }

    /// A refusal that leads to no ban costs no call.
    #[inline(always)]
    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
        rule(policy, strike).is_some()
            && strikes::count_strike(source, policy, strike.at, StrikeBits::of(strike))
    }

    #[inline(always)]
    fn ban_by_policy(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) {
        let bits = StrikeBits::of(strike);
        strikes::ban(self.context, source, policy, strike.at, bits);
    }
}

/// Spends of the shares of this CPU under two policies of one limit each; `None`, and nothing is
/// spent, where one of them has to draw.
#[inline(always)]
fn spend_one_each([of_node, destination]: [u32; 2], arrival: &Arrival) -> Option<Outcome> {
    let spent = spend_one(POLICIES.get(of_node), &MapNode, arrival);
    if spent == NOT_DRAWN {
        return None;
    }
    let there = spend_one(POLICIES.get(destination), &MapNode, arrival);
    if there != NOT_DRAWN {
        return Some(spent.more_specific(there));
    }
    if spent.is_counted() {
        node::give_shares_back(of_node, NO_DESTINATION, Packet::of(arrival));
    }
    None
}
