//! What the pipeline needs from the world: the lists, the policies, the classes, the counters. The state of sources is in the
//! [`Store`](crate::store::Store).

use crate::{
    Address, Arrival, BanRule, Cursor, Detected, Family, Instant, Ipv4, Ipv6, Policy, Settings,
    Standing, Verdict,
    aggregate::Aggregates,
    charge::outcome::Refusal,
    class::{ClassSet, Property},
    classify,
    detected::Detection,
    lease::{self, Demanded},
    list::Listed,
    node::Node,
    parse::{Inner, LinkLayer},
    strikes::Strike,
};

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

    /// Where the packet inside of a tunnel stands, if the one in `frame` is a tunnel that is looked into.
    #[inline(always)]
    fn inner(&self, _frame: Cursor<'_>) -> Inner {
        Inner::NONE
    }

    /// What holds for all packets, and for this one whether it [leaves the reserve](Settings::leaves_reserve).
    fn settings(&self) -> Settings;

    /// Has the settings say of this packet that it leaves the reserve of the node. They are one value, so two take no place on the stack.
    #[inline(always)]
    fn leave_reserve(&self) {}

    /// The end of a time in which everything passes, where the settings say that there is one.
    fn pass_all_until(&self) -> Instant;

    /// The same number, of which a verifier that follows each path forgets what it has learned on this one.
    #[inline(always)]
    fn forget(&self, number: u32, _now: Instant) -> u32 {
        number
    }

    /// The policy at `index`; `None` where there is none.
    fn policy(&self, index: u32) -> Option<&Policy>;

    /// The classes that packets of which `property` is `value` do not belong to.
    fn excluded(&self, property: Property, value: u32) -> ClassSet;

    /// [`classify::excluded_by_destination`], wherever its code is kept.
    #[inline(always)]
    fn excluded_by_destination(&self, frame: Cursor<'_>) -> ClassSet
    where
        Self: Sized,
    {
        classify::excluded_by_destination(frame, self)
    }

    /// The state of the node's limits.
    fn node(&self) -> Self::Node<'_>;

    /// Takes one of this CPU's budget for neighbour discovery; `false` when it is spent. See [`neighbour_discovery`](crate::neighbour_discovery).
    fn admits_neighbour_discovery(&self, now: Instant) -> bool;

    /// Takes one of the bans that detection may make of such sources in a minute; `false` when none is left. See
    /// [`ban_budget`](crate::ban_budget).
    fn may_detect(&self, standing: Standing, now: Instant) -> bool;

    /// Counts what became of a source that a policy was to ban.
    fn count_detection(&self, detection: Detection);

    /// Counts a packet, once, under its verdict.
    fn count(&self, family: Family, verdict: Verdict, frame_bytes: u32);

    /// Counts a packet in the slot of what decided about it.
    #[inline(always)]
    fn count_entry(&self, _: Listed, _frame_bytes: u32) {}
}

/// The tables of one address family.
pub trait FamilyTables<A: Address> {
    /// The bits of an address that make it a source.
    fn source_mask(&self) -> A;

    /// The wider prefixes around a source that have limits.
    fn aggregates(&self) -> Aggregates;

    /// What the list entry of the longest prefix that matches `address` says at `now`.
    fn listed(&self, address: A, now: Instant) -> Listed;

    /// Whether a source, or a prefix around it, may have leases, or may be counted by [`count_demand`](Self::count_demand). It is where it does.
    #[inline(always)]
    fn may_have_lease(&self, _: &A) -> bool {
        false
    }

    /// The index of the policy that a source, or a prefix around it, has leased in place of a policy; [`lease::NONE`] where it has no lease.
    #[inline(always)]
    fn leased(&self, _: &A, _: &Policy, _: Instant) -> u32 {
        lease::NONE
    }

    /// Counts what a packet asked of the limits of a policy that nodes share, and what came of it.
    #[inline(always)]
    fn count_demand(&self, _: &A, _: &Policy, _: &Arrival, _: Demanded) {}

    /// The ban that a policy made of `source`, if it did; it may have ended.
    fn detected(&self, source: &A) -> Option<Detected>;

    /// Counts that a limit refused a packet of `source`, for people to see.
    fn count_refusal(&self, source: &A, now: Instant);

    /// Counts that a limit of `policy` refused a packet, which many share, for people to see: all sources at `address`, or at any.
    #[inline(always)]
    fn count_shared_refusal(&self, _address: Option<&A>, _: &Policy, _: Instant) {}

    /// Counts a strike of `source` by `rule`. Answers what [`BanRule::strike`] does.
    fn count_strike(&self, source: &A, rule: &BanRule, now: Instant) -> bool;

    /// Counts a strike of `source`, with which a ban by `policy` is due. Answers what [`BanRule::confirm`] does.
    fn confirm_strike(
        &self,
        source: &A,
        policy: &Policy,
        strike: &Strike<'_>,
        is_connected: bool,
    ) -> bool;

    /// Whether the packet in `frame` is one of a TCP connection with this host that has been established.
    fn is_connected(&self, frame: Cursor<'_>) -> bool;

    /// Whether a source has to [prove itself](crate::challenge::is_unproved) for the packet, and has not.
    #[inline(always)]
    fn is_unproved(&self, _source: &A, _: &Strike<'_>) -> bool {
        false
    }

    /// Bans a source; `false` when there is no room.
    fn ban(&self, source: &A, ban: Detected) -> bool;

    /// Shows a packet of `source` that is dropped, or would be, to whoever looks at a sample of them.
    fn sample(&self, source: A, refusal: Refusal);
}
