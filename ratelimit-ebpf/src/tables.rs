//! The tables of the pipeline, in BPF maps.

use core::{cell::Cell, ptr};

use aya_ebpf::bindings::xdp_md;
use ratelimit_common::{
    Arrival, BanRule, ClassSet, Cursor, Detected, Family, Flow, Instant, Policy, Settings,
    Standing, Tables, Verdict,
    aggregate::Aggregates,
    challenge,
    charge::{Outcome, Refusal},
    class::Property,
    classify::{Classified, Wanted},
    detected::Detection,
    detection,
    layers::NO_DESTINATION,
    layout::{self, Counter, counter_index},
    lease::Demanded,
    list::Listed,
    node::{self, NOT_DRAWN},
    of_cpu::OfCpu,
    parse::{Inner, LinkLayer, ipv6::Walk, transport::UpperLayer},
    placement::{FamilyPlacement, Placement},
    source_limits,
    strikes::Strike,
    tables::FamilyTables,
};

use crate::{
    capture,
    challenge::MapChallenge,
    compact::{self, SlotStore},
    detected, events,
    family::FamilyCode,
    frame, interface, interruption, leases, lists,
    lru::Records,
    map_words::MapNode,
    maps::{AGGREGATES, EXCLUDED_CLASSES, POLICIES, VERDICTS},
    refused, subprograms, suspended,
};

/// The maps, as they are for one packet.
pub struct KernelTables {
    now: Instant,
    context: *mut xdp_md,
    settings: Cell<Settings>,
    inner: Inner,
    /// What this CPU keeps; null in a subprogram.
    of_cpu: *mut OfCpu,
}

impl KernelTables {
    /// The tables for the packet of `context`, at `now`, by settings that are read once for a packet.
    #[inline(always)]
    pub const fn new(context: *mut xdp_md, now: Instant, settings: Settings) -> Self {
        Self {
            now,
            context,
            settings: Cell::new(settings),
            inner: Inner::NONE,
            of_cpu: ptr::null_mut(),
        }
    }

    /// The tables for a packet of which it is known whether another is inside.
    #[inline(always)]
    pub const fn with_inner(self, inner: Inner) -> Self {
        Self { inner, ..self }
    }

    /// The tables on the CPU that keeps this.
    #[inline(always)]
    pub const fn with_of_cpu(self, of_cpu: *mut OfCpu) -> Self {
        Self { of_cpu, ..self }
    }

    /// The tables for a packet of which all headers were read. Of its settings they know what limits ask for.
    #[inline(always)]
    pub const fn of(arrival: &Arrival) -> Self {
        Self::new(ptr::null_mut(), arrival.at, arrival.settings)
    }

    /// The tables where no settings are asked for.
    #[inline(always)]
    pub const fn without_settings(context: *mut xdp_md, now: Instant) -> Self {
        Self::new(context, now, Settings::new(0, false))
    }

    /// The index of the policy of the node; none where it has none.
    #[inline(always)]
    fn node_policy(&self) -> u32 {
        self.settings.get().node_policy().unwrap_or(NO_DESTINATION)
    }
}

impl Tables for KernelTables {
    type Node<'a> = MapNode;

    #[inline(always)]
    fn link_layer(&self) -> LinkLayer {
        interface::link_layer()
    }

    #[inline(always)]
    fn inner(&self, _: Cursor<'_>) -> Inner {
        self.inner
    }

    #[inline(always)]
    fn forget(&self, number: u32, now: Instant) -> u32 {
        subprograms::forgotten(number.into(), now) as u32
    }

    #[inline(always)]
    fn settings(&self) -> Settings {
        self.settings.get()
    }

    #[inline(always)]
    fn leave_reserve(&self) {
        self.settings.set(self.settings.get().leaving_reserve());
    }

    #[inline(always)]
    fn pass_all_until(&self) -> Instant {
        suspended::until(layout::suspended::ALL)
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
        subprograms::excluded_by_destination(self.context, self.inner)
    }

    #[inline(always)]
    fn node(&self) -> MapNode {
        MapNode
    }

    #[inline(always)]
    fn admits_neighbour_discovery(&self, now: Instant) -> bool {
        subprograms::take_neighbour_discovery(now)
    }

    #[inline(always)]
    fn may_detect(&self, standing: Standing, now: Instant) -> bool {
        subprograms::take_ban(standing, now)
    }

    #[inline(always)]
    fn count_detection(&self, detection: Detection) {
        detected::count(detection);
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
        subprograms::count_entry(listed, frame_bytes);
    }
}

/// Adds a packet to a counter of this CPU, the value of a map.
#[inline(always)]
pub fn add(counter: *mut Counter, frame_bytes: u32) {
    // SAFETY: aligned words of a live map value.
    unsafe {
        interruption::add([
            (&raw mut (*counter).packets, 1),
            (&raw mut (*counter).bytes, frame_bytes.into()),
        ]);
    }
}

impl<A: FamilyCode> FamilyTables<A> for KernelTables {
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
        lists::listed(address, now, self.settings.get())
    }

    #[inline(always)]
    fn may_have_lease(&self, source: &A) -> bool {
        leases::may_be(source)
    }

    #[inline(always)]
    fn leased(&self, source: &A, policy: &Policy, at: Instant) -> u32 {
        subprograms::leased(source, policy, at)
    }

    #[inline(always)]
    fn count_demand(&self, source: &A, policy: &Policy, arrival: &Arrival, demanded: Demanded) {
        subprograms::count_demand(source, policy, arrival, demanded);
    }

    #[inline(always)]
    fn detected(&self, source: &A) -> Option<Detected> {
        detected::find(source)
    }

    #[inline(always)]
    fn count_refusal(&self, source: &A, now: Instant) {
        refused::count(source, now);
    }

    #[inline(always)]
    fn count_shared_refusal(&self, address: Option<&A>, policy: &Policy, now: Instant) {
        subprograms::count_shared_refusal(address, policy, now);
    }

    #[inline(always)]
    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool {
        crate::strikes::count(source, rule, now)
    }

    #[inline(always)]
    fn confirm_strike(
        &self,
        source: &A,
        policy: &Policy,
        strike: &Strike<'_>,
        is_connected: bool,
    ) -> bool {
        subprograms::confirm_strike(source, policy, strike, is_connected)
    }

    #[inline(always)]
    fn is_connected(&self, _: Cursor<'_>) -> bool {
        subprograms::is_connected::<A>(self.context)
    }

    #[inline(always)]
    fn is_unproved(&self, source: &A, strike: &Strike<'_>) -> bool {
        subprograms::is_unproved(self.context, source, strike.at)
    }

    #[inline(always)]
    fn ban(&self, source: &A, ban: Detected) -> bool {
        // Here and not before the socket was looked up: that takes the stack.
        let source = subprograms::on_stack(source);
        detected::ban(&source, &ban, interface::slot())
    }

    #[inline(always)]
    fn sample(&self, source: A, refusal: Refusal) {
        if events::is_due(self.now) {
            subprograms::sample(self.context, &source, refusal, interface::slot(), self.now);
        }
    }
}

impl Placement for KernelTables {
    #[inline(always)]
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk {
        subprograms::walk(self.context, cursor, first)
    }

    #[inline(always)]
    fn classify(&self, _: Cursor<'_>, upper: UpperLayer, policy: u32) -> Classified {
        subprograms::classify(self.context, upper, Wanted::by(self.settings.get()), policy)
    }

    /// Policies of one limit each cost no call.
    #[inline(always)]
    fn spend(&self, destination: u32, arrival: &Arrival) -> Outcome {
        let policies = [self.node_policy(), destination];
        let spent = spend_one_each(policies, arrival);
        let spent = spent.unwrap_or_else(|| subprograms::spend_shares(policies, arrival));
        Outcome::from_bits(self.forget(spent.to_bits(), arrival.at))
    }

    #[inline(always)]
    fn give_back(&self, destination: u32, arrival: &Arrival) {
        subprograms::give_shares_back([self.node_policy(), destination], arrival);
    }
}

/// Spends of the shares of this CPU under two policies of one limit each; `None`, and nothing is spent, where one of them has to draw.
#[inline(always)]
fn spend_one_each([of_node, destination]: [u32; 2], arrival: &Arrival) -> Option<Outcome> {
    let spent = node::spend_one(POLICIES.get(of_node), &MapNode, arrival);
    if spent == NOT_DRAWN {
        return None;
    }
    let there = node::spend_one(POLICIES.get(destination), &MapNode, arrival);
    if there != NOT_DRAWN {
        return Some(spent.or_more(there));
    }
    if spent.is_counted() {
        subprograms::give_shares_back([of_node, NO_DESTINATION], arrival);
    }
    None
}

impl<A: FamilyCode> FamilyPlacement<A> for KernelTables {
    #[inline(always)]
    fn challenge(
        &self,
        source: &A,
        _: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> challenge::Outcome {
        let settings = self.settings.get();
        if listed.is_protected() {
            return challenge::Outcome::Unasked;
        }
        // SAFETY: outside of subprograms it is a live map value, and nobody comes here in one.
        let state = unsafe { MapChallenge::new(settings, self.context, self.of_cpu) };
        let frame = || frame::whole_again(self.context);
        // What comes inside of a tunnel counts for no challenge.
        if self.inner == Inner::NONE
            && let Some(outcome) =
                challenge::judge_quickly(source, frame, flow, settings, now, &state)
        {
            return outcome;
        }
        subprograms::judge_challenge(self.context, source, flow.upper, listed, settings, now)
    }

    #[inline(always)]
    fn destination(&self, flow: &Flow<A>, now: Instant) -> u32 {
        let settings = self.settings.get();
        lists::cached_destination(flow.destination, settings.generation())
            .unwrap_or_else(|| subprograms::destination::<A>(self.context, now, settings))
    }

    #[inline(always)]
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        if compact::is_used() {
            return subprograms::check_slots(address, policy, arrival);
        }
        subprograms::check_record(address, policy, arrival)
    }

    #[inline(always)]
    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        if compact::is_used() {
            return subprograms::charge_slots(address, policy, arrival);
        }
        subprograms::charge_record(address, policy, arrival)
    }

    #[inline(always)]
    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        subprograms::charge_new(source, policy, arrival)
    }

    #[inline(always)]
    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        let outcome = if compact::is_used() {
            source_limits::charge_source(source, policy, arrival, &SlotStore, self)
        } else {
            source_limits::charge_source(source, policy, arrival, &Records, self)
        };
        // The usual one, which the verifier may follow to the end of the lean program.
        if cfg!(feature = "lean") && outcome == Outcome::PASSED {
            return outcome;
        }
        Outcome::from_bits(self.forget(outcome.to_bits(), arrival.at))
    }

    #[inline(always)]
    fn charge_leased(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        subprograms::charge_leased(source, policy, arrival)
    }

    #[inline(always)]
    fn check_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        subprograms::check_layer(layer, source, policy, arrival)
    }

    #[inline(always)]
    fn charge_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        subprograms::charge_layer(layer, source, policy, arrival)
    }

    #[inline(always)]
    fn charge_destination(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        subprograms::charge_destination(source, policy, arrival)
    }

    #[inline(always)]
    fn charge_established(
        &self,
        source: &A,
        policy: Option<&Policy>,
        _: Cursor<'_>,
        arrival: &Arrival,
    ) -> bool {
        subprograms::charge_established(self.context, source, policy, arrival)
    }

    /// A refusal that leads to no ban costs no call.
    #[inline(always)]
    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
        detection::rule(policy, strike).is_some() && subprograms::strike(source, policy, strike)
    }

    #[inline(always)]
    fn detect(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) {
        subprograms::detect(self.context, source, policy, strike);
    }
}
