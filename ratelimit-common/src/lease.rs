//! Limits that the nodes of a cluster share: what this node may admit of one, for how long, and what it has to admit.
//!
//! A policy with such limits has what every source may always use, the limit divided by the nodes. A source that is busy somewhere has a
//! lease: it names the same policy with other amounts, and the one that holds when the lease ends. The words of state mean the same under all
//! of them, so what was used stays used. User space writes leases; the program compares their end with its own clock.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Address, Arrival, Instant, Ipv6, Policy, SourceKey, Tables,
    layout::{LEASED_MAX, POLICIES_MAX},
    limit::LIMITS_MAX,
    source::LogKey,
    tables::FamilyTables,
};

/// By what one key is judged in place of its policy.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Lease {
    until_ns: u64,
    now: u32,
    then: u32,
}

/// What packets of one key asked of each limit of its policy, in the unit of the limit.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Demand {
    /// What passed.
    pub admitted: [u64; LIMITS_MAX],
    /// What a limit of the policy refused.
    pub refused: [u64; LIMITS_MAX],
}

/// The index of no policy.
pub const NONE: u32 = POLICIES_MAX + LEASED_MAX;

impl Lease {
    /// A lease of the policy at index `now` until a time, and of the one at `then` after it.
    #[must_use]
    pub const fn new(now: u32, until: Instant, then: u32) -> Self {
        Self {
            until_ns: until.as_nanos(),
            now,
            then,
        }
    }

    /// The index of the policy that holds at a time.
    #[must_use]
    #[inline(always)]
    pub const fn at(&self, at: Instant) -> u32 {
        if at.as_nanos() < self.until_ns {
            self.now
        } else {
            self.then
        }
    }

    /// The indices of what holds until it ends, and after that.
    #[must_use]
    pub const fn policies(&self) -> [u32; 2] {
        [self.now, self.then]
    }
}

/// The key of the node's own limits, which are those of no source.
#[must_use]
#[inline(always)]
pub fn node_key(scope: u32) -> LogKey {
    LogKey::new(&SourceKey::new(Ipv6::new([0; 16]), scope))
}

/// What a packet of `address` is judged by: what its lease names, where it has one of this policy, else the policy itself. One that is about to
/// be charged is counted.
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
        Some(policy) if policy.is_of_cluster() => {
            let leased = tables.leased(address, policy, arrival, is_charged);
            Some(policy.or_on_its_terms(tables.policy(leased)))
        }
        _ => policy,
    }
}
