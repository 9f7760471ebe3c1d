//! What the pipeline needs from the world: the lists, the policies, the classes, the state of the limits, the counters.

use crate::{
    Address, Arrival, BanRule, Cursor, Detected, Family, Instant, Ipv4, Ipv6, Policy, Settings,
    Standing, Verdict,
    aggregate::Aggregates,
    charge::{Outcome, Refusal, Words},
    class::{self, ClassSet},
    detected::Detection,
    layers,
    list::Listed,
    new_sources::{self, Newcomer},
    node::Node,
    parse::{
        LinkLayer, ipv6,
        transport::{Kind, UpperLayer},
    },
    source::SourceKey,
    state,
    strikes::{self, Strike},
};

/// Why the state of a new source was not stored.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum InsertError {
    /// Another CPU stored it first.
    Exists,
    /// There is no room, for the moment.
    Full,
}

/// The tables of the datapath. The kernel has them in BPF maps, tests and `rlctl simulate` in memory.
pub trait Tables: FamilyTables<Ipv4> + FamilyTables<Ipv6> {
    /// The state of the node's limits.
    type Node<'a>: Node
    where
        Self: 'a;

    /// What stands in front of the network header.
    #[inline(always)]
    fn link_layer(&self) -> LinkLayer {
        LinkLayer::Ethernet
    }

    /// What holds for all packets.
    fn settings(&self) -> Settings;

    /// The end of a time in which everything passes, where the settings say that there is one.
    fn pass_all_until(&self) -> Instant;

    /// The policy at `index`; `None` where there is none.
    fn policy(&self, index: u32) -> Option<&Policy>;

    /// The classes that a packet of this kind may belong to.
    fn classes_of(&self, kind: Kind) -> ClassSet;

    /// The classes that a packet from this port, or from [`NO_PORT`](crate::class::NO_PORT), may belong to.
    fn classes_from(&self, port: u32) -> ClassSet;

    /// The classes that a packet to this port, or to [`NO_PORT`](crate::class::NO_PORT), may belong to.
    fn classes_to(&self, port: u32) -> ClassSet;

    /// [`ipv6::walk`], wherever its code is kept.
    #[inline(always)]
    fn walk(&self, cursor: Cursor<'_>, first: u8) -> ipv6::Walk {
        ipv6::walk(cursor, first)
    }

    /// [`class::classify`], wherever its code is kept.
    #[inline(always)]
    fn classify(&self, frame: Cursor<'_>, upper: UpperLayer) -> ClassSet
    where
        Self: Sized,
    {
        class::classify(frame, upper, self)
    }

    /// The state of the node's limits.
    fn node(&self) -> Self::Node<'_>;

    /// Takes one of the budget for state; `false` when it is spent. See [`new_sources`].
    fn admits(&self, newcomer: Newcomer, now: Instant) -> bool;

    /// Takes one of this CPU's budget for neighbour discovery; `false` when it is spent. See [`neighbour_discovery`](crate::neighbour_discovery).
    fn admits_neighbour_discovery(&self, now: Instant) -> bool;

    /// Takes one of the bans that detection may make of such sources in a minute; `false` when none is left. See
    /// [`ban_budget`](crate::ban_budget).
    fn may_detect(&self, standing: Standing, now: Instant) -> bool;

    /// Counts what became of a source that a policy was to ban.
    fn count_detection(&self, detection: Detection);

    /// Counts a packet, once, under its verdict.
    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32);
}

/// The tables of one address family.
pub trait FamilyTables<A: Address> {
    /// The state of one source.
    type Words<'a>: Words
    where
        Self: 'a;

    /// The bits of an address that make it a source.
    fn source_mask(&self) -> A;

    /// The wider prefixes around a source that have limits.
    fn aggregates(&self) -> Aggregates;

    /// What the list entry of the longest prefix that matches `address` says at `now`.
    fn listed(&self, address: A, now: Instant) -> Listed;

    /// The state of a source that was seen before.
    fn words(&self, key: &SourceKey<A>) -> Option<Self::Words<'_>>;

    /// Makes the state of a source that was not seen before: nothing is used.
    ///
    /// # Errors
    ///
    /// See [`InsertError`].
    fn insert(&self, key: &SourceKey<A>) -> Result<(), InsertError>;

    /// [`state::check`], wherever its code is kept.
    #[inline(always)]
    fn check(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome
    where
        Self: Tables + Sized,
    {
        state::check(address, policy, arrival, self)
    }

    /// [`state::charge`], wherever its code is kept.
    #[inline(always)]
    fn charge(&self, address: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome
    where
        Self: Tables + Sized,
    {
        state::charge(address, policy, arrival, self)
    }

    /// [`new_sources::charge`], for a packet that meets no wider limits, wherever its code is kept.
    #[inline(always)]
    fn charge_source(&self, source: &A, policy: Option<&Policy>, arrival: &Arrival) -> Outcome
    where
        Self: Tables + Sized,
    {
        new_sources::charge(*source, policy, arrival, self)
    }

    /// [`layers::check_layer`], wherever its code is kept.
    #[inline(always)]
    fn check_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome
    where
        Self: Tables + Sized,
    {
        layers::check_layer(layer, source, policy, arrival, self)
    }

    /// [`layers::charge_layer`], wherever its code is kept.
    #[inline(always)]
    fn charge_layer(
        &self,
        layer: usize,
        source: &A,
        policy: Option<&Policy>,
        arrival: &Arrival,
    ) -> Outcome
    where
        Self: Tables + Sized,
    {
        layers::charge_layer(layer, source, policy, arrival, self)
    }

    /// The ban that a policy made of `source`, if it did; it may have ended.
    fn detected(&self, source: &A) -> Option<Detected>;

    /// Counts that a limit refused a packet of `source`, for people to see.
    fn count_refusal(&self, source: &A, now: Instant);

    /// Counts a strike of `source` by `rule`. Answers what [`BanRule::strike`] does.
    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool;

    /// Whether the packet is one of a TCP connection with this host that has been established.
    fn is_connected(&self, strike: &Strike<'_>) -> bool;

    /// Bans a source; `false` when there is no room.
    fn ban(&self, source: &A, ban: Detected) -> bool;

    /// [`strikes::count`], wherever its code is kept.
    #[inline(always)]
    fn strike(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>) -> bool
    where
        Self: Sized,
    {
        strikes::count(source, policy, strike, self)
    }

    /// [`strikes::detect`], wherever its code is kept.
    #[inline(always)]
    fn detect(&self, source: &A, policy: Option<&Policy>, strike: &Strike<'_>)
    where
        Self: Tables + Sized,
    {
        strikes::detect(source, policy, strike, self);
    }

    /// Shows a packet of `source` that is dropped, or would be, to whoever looks at a sample of them.
    fn sample(&self, source: A, refusal: Refusal);
}
