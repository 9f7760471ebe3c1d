//! Charging the limits of a packet one layer at a time.

use core::ptr;

use ratelimit_common::{
    Arrival, Instant, Ipv4, Ipv6, Policy, charge::Outcome, layers, refused::shared,
};

use super::{NOTHING, Subprograms, decode, encode, nullable, pack, unpack};
use crate::{refused, tables::KernelTables};

/// [`layers::check_layer`].
#[inline(always)]
pub fn check_layer<A: Subprograms>(
    layer: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    let (policy, at_ns) = (nullable(policy), arrival.at.as_nanos());
    decode((A::CHECK_LAYER)(
        layer as u64,
        source,
        policy,
        at_ns,
        pack(arrival),
    ))
}

/// [`layers::charge_layer`].
#[inline(always)]
pub fn charge_layer<A: Subprograms>(
    layer: usize,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    let (policy, at_ns) = (nullable(policy), arrival.at.as_nanos());
    decode((A::CHARGE_LAYER)(
        layer as u64,
        source,
        policy,
        at_ns,
        pack(arrival),
    ))
}

/// Counts a refusal of limits that many share.
#[inline(always)]
pub fn count_shared_refusal<A: Subprograms>(address: Option<&A>, policy: &Policy, now: Instant) {
    let address = address.map_or(ptr::null(), ptr::from_ref);
    (A::COUNT_SHARED_REFUSAL)(address, policy.scope().into(), now.as_nanos());
}

macro_rules! of_counts {
    ($address:ty, $count:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $count(address: *const $address, scope: u64, at_ns: u64) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let address = unsafe { address.as_ref() };
            if let Some(shared) = shared(scope as u32, address) {
                refused::count(&shared, Instant::from_nanos(at_ns));
            }
            0
        }
    };
}

of_counts!(Ipv4, count_shared_refusal_v4);
of_counts!(Ipv6, count_shared_refusal_v6);

macro_rules! of_family {
    ($address:ty, $($subprogram:ident = $body:path;)+) => {
        $(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            layer: u64,
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
            encode($body(layer as usize, source, policy, &arrival, &tables))
        }
        )+
    };
}

of_family!(
    Ipv4,
    check_layer_limits_v4 = layers::check_layer;
    charge_layer_limits_v4 = layers::charge_layer;
);
of_family!(
    Ipv6,
    check_layer_limits_v6 = layers::check_layer;
    charge_layer_limits_v6 = layers::charge_layer;
);
