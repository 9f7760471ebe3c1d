//! Limits that the nodes of a cluster share: the policy that a source has leased, and what its packets ask.

use ratelimit_common::{
    Arrival, Ipv4, Ipv6, Policy, SourceKey,
    lease::{self, node_key},
    source::LogKey,
};

use super::{Subprograms, on_stack, pack, unknown, unpack};
use crate::leases;

/// [`leases::leased`].
#[inline(always)]
pub fn leased<A: Subprograms>(
    source: &A,
    policy: &Policy,
    arrival: &Arrival,
    is_charged: bool,
) -> u32 {
    let at_ns = arrival.at.as_nanos();
    unknown((A::LEASED)(
        source,
        policy,
        at_ns,
        pack(arrival),
        is_charged.into(),
    )) as u32
}

/// [`leases::count_refused`].
#[inline(always)]
pub fn count_refused<A: Subprograms>(source: &A, policy: &Policy, arrival: &Arrival) {
    (A::COUNT_REFUSED)(source, policy, pack(arrival));
}

macro_rules! of_family {
    ($address:ty, $leased:ident, $count_refused:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $leased(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
            is_charged: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), Some(policy)) = (unsafe { (source.as_ref(), policy.as_ref()) })
            else {
                return lease::NONE.into();
            };
            let key = LogKey::new(&SourceKey::new(on_stack(source), policy.scope()));
            leases::leased(&key, policy, &unpack(at_ns, packet), is_charged != 0).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $count_refused(
            source: *const $address,
            policy: *const Policy,
            packet: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), Some(policy)) = (unsafe { (source.as_ref(), policy.as_ref()) })
            else {
                return 0;
            };
            let key = LogKey::new(&SourceKey::new(on_stack(source), policy.scope()));
            leases::count_refused(&key, policy, &unpack(0, packet));
            1
        }
    };
}

of_family!(Ipv4, leased_by_source_v4, count_refused_v4);
of_family!(Ipv6, leased_by_source_v6, count_refused_v6);

/// The index of the policy that the node has leased in place of its own. What a packet asks that is about to be charged is counted.
#[inline(always)]
pub fn leased_by_node(policy: &Policy, arrival: &Arrival, is_charged: bool) -> u32 {
    let at_ns = arrival.at.as_nanos();
    unknown(leased_by_this_node(
        policy,
        at_ns,
        pack(arrival),
        is_charged.into(),
    )) as u32
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn leased_by_this_node(
    policy: *const Policy,
    at_ns: u64,
    packet: u64,
    is_charged: u64,
) -> u64 {
    // SAFETY: as above.
    let Some(policy) = (unsafe { policy.as_ref() }) else {
        return lease::NONE.into();
    };
    let key = node_key(policy.scope());
    leases::leased(&key, policy, &unpack(at_ns, packet), is_charged != 0).into()
}

/// Counts what a packet asked of the limits of the node, which refused it.
#[inline(always)]
pub fn count_refused_by_node(policy: &Policy, arrival: &Arrival) {
    count_refused_by_this_node(policy, pack(arrival));
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn count_refused_by_this_node(policy: *const Policy, packet: u64) -> u64 {
    // SAFETY: as above.
    let Some(policy) = (unsafe { policy.as_ref() }) else {
        return 0;
    };
    leases::count_refused(&node_key(policy.scope()), policy, &unpack(0, packet));
    1
}
