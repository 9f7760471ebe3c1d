//! Leases: the share of this node in limits that the nodes of a cluster share, its duration, and
//! the demand for them.
//!
//! A policy with shared limits contains the amounts that every source may always use: each limit
//! divided by the number of nodes. A source that is busy somewhere has a lease, which names the
//! same policy with other amounts, and the policy after its end. Words have the same meaning under
//! all of them, so usage is kept. User space writes leases; the program compares their ends with
//! its own clock.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Address, Arrival, Family, Instant, Ipv6, Policy, SourceKey, Tables,
    charge::outcome::Outcome,
    layout::{FILTERS_MAX, LEASED_MAX, POLICIES_MAX},
    limit::LIMITS_MAX,
    source::LogKey,
    tables::FamilyTables,
};

/// The policies of one key, replacing the default one.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Lease {
    until_ns: u64,
    now: u32,
    then: u32,
}

/// The demand of one key for each limit of its policy, in the unit of the limit.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Demand {
    /// The admitted amount of each limit.
    pub admitted: [u64; LIMITS_MAX],
    /// The refused amount of each limit.
    pub refused: [u64; LIMITS_MAX],
}

/// The outcome of a packet's demand.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Demanded {
    /// It passed. This is counted only if the source was refused before or has a lease.
    Admitted,
    /// A limit refused it.
    Refused,
}

impl Demanded {
    /// Returns the outcome for counting.
    #[inline(always)]
    pub const fn of(outcome: Outcome) -> Self {
        if outcome.is_refused() {
            Self::Refused
        } else {
            Self::Admitted
        }
    }

    /// Returns the variant with this number.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Admitted,
            _ => Self::Refused,
        }
    }
}

/// The index of no policy.
pub const NONE: u32 = POLICIES_MAX + LEASED_MAX;

impl Lease {
    /// A lease of the policy at index `now` until a time, and of the one at `then` after it.
    pub const fn new(now: u32, until: Instant, then: u32) -> Self {
        Self {
            until_ns: until.as_nanos(),
            now,
            then,
        }
    }

    /// The index of the policy that applies at a time.
    #[inline(always)]
    pub const fn at(&self, at: Instant) -> u32 {
        if at.as_nanos() < self.until_ns {
            self.now
        } else {
            self.then
        }
    }

    /// The indices of the policies during the lease and after it.
    pub const fn policies(&self) -> [u32; 2] {
        [self.now, self.then]
    }
}

/// The index of the [filter](crate::source_filter::Filter) of the sources and prefixes of a family
/// that have leases, or demand that is counted.
#[inline(always)]
pub const fn filter_of(family: Family) -> u32 {
    (family as u32).wrapping_add(FILTERS_MAX / 2)
}

/// The key of the node's own limits, which are those of no source.
#[inline(always)]
pub fn node_key(scope: u32) -> LogKey {
    LogKey::new(&SourceKey::new(Ipv6::new([0; 16]), scope))
}

/// Whether a source or prefix may have a lease of this policy, or may be counted.
#[inline(always)]
pub fn may_be<A: Address>(
    address: &A,
    policy: Option<&Policy>,
    tables: &impl FamilyTables<A>,
) -> bool {
    policy.is_some_and(Policy::is_of_cluster) && tables.may_have_lease(address)
}

/// The policy for a packet of `address`: the leased one if there is a lease of this policy,
/// otherwise the policy itself. Counts the demand of a packet that is about to be charged.
#[inline(always)]
pub fn in_force<'a, A, T>(
    address: &A,
    policy: Option<&'a Policy>,
    arrival: &Arrival,
    is_charged: bool,
    tables: &'a T,
) -> Option<&'a Policy>
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    match policy {
        Some(own) if may_be(address, policy, tables) => {
            let leased = tables.policy(tables.leased(address, own, arrival.at));
            if is_charged {
                tables.count_demand(address, own, arrival, Demanded::Admitted);
            }
            Some(own.or_leased(leased))
        }
        _ => policy,
    }
}
