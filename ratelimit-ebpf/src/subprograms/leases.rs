//! Limits that the nodes of a cluster share: the policy that a source has leased, and what its packets ask.

use ratelimit_common::{
    Arrival, Instant, Ipv4, Ipv6, Policy, SourceKey,
    charge::Outcome,
    layers,
    lease::{self, Demanded, node_key},
    source::LogKey,
};

use super::{NOTHING, Subprograms, decode, encode, nullable, on_stack, pack, unknown, unpack};
use crate::{leases, tables::KernelTables};

/// [`layers::charge_leased`].
#[inline(always)]
pub fn charge_leased<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    let (policy, at_ns) = (nullable(policy), arrival.at.as_nanos());
    decode((A::CHARGE_LEASED)(source, policy, at_ns, pack(arrival)))
}

/// [`leases::leased`].
#[inline(always)]
pub fn leased<A: Subprograms>(source: &A, policy: &Policy, at: Instant) -> u32 {
    unknown((A::LEASED)(source, policy.scope().into(), at.as_nanos())) as u32
}

/// [`leases::count`], and from then on the source may be counted.
#[inline(always)]
pub fn count_demand<A: Subprograms>(
    source: &A,
    policy: &Policy,
    arrival: &Arrival,
    demanded: Demanded,
) {
    (A::COUNT_DEMAND)(source, policy, pack(arrival), demanded as u64);
}

macro_rules! of_family {
    ($address:ty, $charge_leased:ident, $leased:ident, $count_demand:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $charge_leased(
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return NOTHING;
            };
            let arrival = unpack(at_ns, packet);
            let tables = KernelTables::of(&arrival);
            encode(layers::charge_leased(source, policy, &arrival, &tables))
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $leased(source: *const $address, scope: u64, at_ns: u64) -> u64 {
            // SAFETY: as above.
            let Some(source) = (unsafe { source.as_ref() }) else {
                return lease::NONE.into();
            };
            let key = LogKey::new(&SourceKey::new(on_stack(source), scope as u32));
            leases::leased(&key, Instant::from_nanos(at_ns)).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $count_demand(
            source: *const $address,
            policy: *const Policy,
            packet: u64,
            demanded: u64,
        ) -> u64 {
            // SAFETY: as above.
            let (Some(source), Some(policy)) = (unsafe { (source.as_ref(), policy.as_ref()) })
            else {
                return 0;
            };
            let demanded = Demanded::from_number(demanded);
            if demanded == Demanded::Refused {
                leases::mark(source);
            }
            let key = LogKey::new(&SourceKey::new(on_stack(source), policy.scope()));
            leases::count(&key, policy, &unpack(0, packet), demanded);
            1
        }
    };
}

of_family!(
    Ipv4,
    charge_leased_limits_v4,
    leased_by_source_v4,
    count_demand_v4
);
of_family!(
    Ipv6,
    charge_leased_limits_v6,
    leased_by_source_v6,
    count_demand_v6
);

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
    let leased = leases::leased(&key, Instant::from_nanos(at_ns));
    if is_charged != 0 {
        leases::count(&key, policy, &unpack(at_ns, packet), Demanded::Admitted);
    }
    leased.into()
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
    let key = node_key(policy.scope());
    leases::count(&key, policy, &unpack(0, packet), Demanded::Refused);
    1
}
