//! The environment of the pipeline: the lists, the policies, the classes, the counters. The state
//! of sources is in the [`Store`](crate::store::Store).

use crate::{
    Address, Arrival, BanRule, Cursor, Evidence, Family, Flow, Instant, Policy, PolicyBan,
    Settings, Verdict,
    aggregate::Aggregates,
    challenge,
    charge::outcome::{Outcome, Refusal},
    class::{ClassSet, Property},
    classify::{self, Classified, Wanted},
    established,
    layers::{self, NO_DESTINATION},
    lease::{self, Demanded},
    list::Listed,
    node::{self, PooledLimits},
    parse::{
        Inner, LinkLayer,
        ipv6::{self, Walk},
        transport::UpperLayer,
    },
    policy_ban::{self, BanResult},
    source_limits,
    strikes::Strike,
};

/// The tables of the datapath. The kernel has them in BPF maps, tests and `rlctl simulate` in
/// memory.
pub trait Tables: Sized {
    /// The state of the node's limits.
    type PooledLimits<'a>: PooledLimits
    where
        Self: 'a;

    /// The header before the network header.
    #[inline(always)]
    fn link_layer(&self) -> LinkLayer {
        LinkLayer::Ethernet
    }

    /// The VLAN of the outermost tag, if the kernel took it off the frame.
    #[inline(always)]
    fn taken_vlan(&self) -> Option<u32> {
        None
    }

    /// The position of the inner packet, if the one in `frame` is a tunnel that is unwrapped.
    #[inline(always)]
    fn inner(&self, _frame: Cursor<'_>) -> Inner {
        Inner::NONE
    }

    /// The settings for all packets, and whether this one is [excluded from the
    /// reserve](Settings::is_excluded_from_reserve).
    fn settings(&self) -> Settings;

    /// Excludes this packet from the reserve of the node. The flag is one of the settings, because
    /// a second value would take room on the stack.
    #[inline(always)]
    fn exclude_from_reserve(&self) {}

    /// The end of a time in which everything passes, where the settings say that there is one.
    fn pass_all_until(&self) -> Instant;

    /// Returns the same number. A verifier that follows each path forgets what it learned on this
    /// one.
    #[inline(always)]
    fn without_bounds(&self, number: u32, _now: Instant) -> u32 {
        number
    }

    /// Returns the policy at `index`, if there is one.
    fn policy(&self, index: u32) -> Option<&Policy>;

    /// Returns the classes that exclude packets with this `value` of `property`.
    fn excluded(&self, property: Property, value: u32) -> ClassSet;

    /// [`classify::excluded_by_destination`], wherever its code is kept.
    #[inline(always)]
    fn excluded_by_destination(&self, frame: Cursor<'_>) -> ClassSet {
        classify::excluded_by_destination(frame, self)
    }

    /// The state of the node's limits.
    fn node(&self) -> Self::PooledLimits<'_>;

    /// Takes one of this CPU's budget for neighbour discovery; `false` when it is spent. See
    /// [`neighbour_discovery`](crate::neighbour_discovery).
    fn admits_neighbour_discovery(&self, now: Instant) -> bool;

    /// Takes one of the bans that policies may make of such sources in a minute; `false` if none is
    /// left. See [`ban_budget`](crate::ban_budget).
    fn take_ban(&self, evidence: Evidence, now: Instant) -> bool;

    /// Counts the result of a ban by a policy.
    fn count_ban_result(&self, result: BanResult);

    /// Counts a packet, once, under its verdict.
    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32);

    /// Counts a packet in the slot of what decided about it.
    #[inline(always)]
    fn count_entry(&self, _: Listed, _frame_bytes: u32) {}

    /// [`ipv6::walk`], wherever its code is kept.
    #[inline(always)]
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> Walk {
        ipv6::walk(cursor, first)
    }

    /// [`classify::classify`] by what the settings ask for, wherever its code is kept.
    #[inline(always)]
    fn classify(&self, frame: Cursor<'_>, upper: UpperLayer, policy: u32) -> Classified {
        classify::classify(frame, upper, Wanted::by(self.settings()), policy, self)
    }

    /// [`node::spend`] of the policies of [the node and a destination](layers::shared_policies),
    /// wherever its code is kept.
    #[inline(always)]
    fn spend(&self, destination: u32, arrival: &Arrival) -> Outcome {
        node::spend(
            layers::shared_policies(destination, self),
            &self.node(),
            arrival,
        )
    }

    /// [`node::give_back`] of them, wherever its code is kept.
    #[inline(always)]
    fn give_back(&self, destination: u32, arrival: &Arrival) {
        node::give_back(
            layers::shared_policies(destination, self),
            &self.node(),
            arrival,
        );
    }
}

/// The tables of one address family, and the larger steps of the decision: a host has their code
/// where it is called, the kernel chooses where it is kept.
pub trait FamilyTables<A: Address>: Tables {
    /// The bits of an address that make it a source.
    fn source_mask(&self) -> A;

    /// The wider prefixes around a source that have limits.
    fn aggregates(&self) -> Aggregates;

    /// The rules in the list entry of the longest prefix that matches `address`, at `now`.
    fn listed(&self, address: A, now: Instant) -> Listed;

    /// Whether a source, or a prefix around it, may have leases, or may be counted by
    /// [`count_demand`](Self::count_demand). It is where it does.
    #[inline(always)]
    fn may_have_lease(&self, _: &A) -> bool {
        false
    }

    /// The index of the leased policy of a source, or of a prefix around it, for a policy;
    /// [`lease::NONE`] without a lease.
    #[inline(always)]
    fn leased(&self, _: &A, _: &Policy, _: Instant) -> u32 {
        lease::NONE
    }

    /// Counts a packet's demand for the shared limits of a policy, and the result.
    #[inline(always)]
    fn count_demand(&self, _: &A, _: &Policy, _: &Arrival, _: Demanded) {}

    /// The ban that a policy made of `source`, if it did; it may have ended.
    fn policy_ban(&self, source: &A) -> Option<PolicyBan>;

    /// Counts that a limit refused a packet of `source`, for people to see.
    fn count_refusal(&self, source: &A, now: Instant);

    /// Counts that a limit of `policy` refused a packet, which many share, for people to see: all
    /// sources at `address`, or at any.
    #[inline(always)]
    fn count_shared_refusal(&self, _address: Option<&A>, _: &Policy, _: Instant) {}

    /// Counts a strike of `source` by `rule`. Answers what [`BanRule::strike`] does.
    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool;

    /// Counts a strike of `source`, with which a ban by `policy` is due. Answers what
    /// [`BanRule::confirm`] does.
    fn confirm_strike(
        &self,
        source: &A,
        policy: &Policy,
        strike: &Strike<'_>,
        is_connected: bool,
    ) -> bool;

    /// Whether the packet in `frame` is one of a TCP connection with this host that has been
    /// established.
    fn is_connected(&self, frame: Cursor<'_>) -> bool;

    /// Whether a source must [prove itself](crate::challenge::is_unproved) for the packet, and has
    /// not done so.
    #[inline(always)]
    fn is_unproved(&self, _source: &A, _: &Strike<'_>) -> bool {
        false
    }

    /// Whether policies do not ban the source, because it contains a protected address.
    #[inline(always)]
    fn is_exempt(&self, _source: &A) -> bool {
        false
    }

    /// Bans a source; `false` when there is no room.
    fn ban(&self, source: &A, ban: PolicyBan) -> bool;

    /// Shows a packet of `source` that is dropped, or would be, to whoever looks at a sample of
    /// them.
    fn sample(&self, source: A, refusal: Refusal);

    /// [`challenge::judge_packet`] of the packet in `frame`.
    fn challenge(
        &self,
        source: &A,
        frame: Cursor<'_>,
        flow: &Flow<A>,
        listed: Listed,
        now: Instant,
    ) -> challenge::Effect;

    /// [`source_limits::check`] in the store.
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`source_limits::charge`] in the store.
    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// [`source_limits::charge_source`] in the store.
    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;

    /// Returns the index of the policy for the destination of the packet; [`NO_DESTINATION`] if
    /// there is none.
    #[inline(always)]
    fn destination(&self, flow: &Flow<A>, now: Instant) -> u32 {
        let policy = self.listed(flow.destination, now).destination();
        policy.unwrap_or(NO_DESTINATION)
    }

    /// [`source_limits::charge_within_budget`].
    #[inline(always)]
    fn charge_within_budget(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        source_limits::charge_within_budget(&mut { *source }, policy, arrival, self)
    }

    /// [`layers::charge_leased`].
    #[inline(always)]
    fn charge_leased(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome {
        layers::charge_leased(source, policy, arrival, self)
    }

    /// [`layers::check_layer`].
    #[inline(always)]
    fn check_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        layers::check_layer(layer, source, policy, arrival, self)
    }

    /// [`layers::charge_layer`].
    #[inline(always)]
    fn charge_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        layers::charge_layer(layer, source, policy, arrival, self)
    }

    /// [`layers::charge_destination`].
    #[inline(always)]
    fn charge_destination(
        &self,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome {
        layers::charge_destination(source, policy, arrival, self)
    }

    /// [`established::charge`].
    #[inline(always)]
    fn charge_established(
        &self,
        source: &A,
        policy: Option<&Policy>,
        frame: Cursor<'_>,
        arrival: &Arrival,
    ) -> bool {
        established::charge(source, policy, frame, arrival, self)
    }

    /// [`policy_ban::strike`].
    #[inline(always)]
    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool {
        policy_ban::strike(source, policy, strike, self)
    }

    /// [`policy_ban::ban`].
    #[inline(always)]
    fn ban_by_policy(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) {
        policy_ban::ban(source, policy, strike, self);
    }
}
