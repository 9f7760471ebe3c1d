//! Charging the limits of a packet one layer at a time.

use ratelimit_common::{Arrival, Ipv4, Ipv6, Policy, charge::Outcome, layers};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::tables::KernelTables;

/// The layers of a source: its own limits, and those of the prefixes around it.
pub trait LayerCode {
    /// [`layers::check_layer`].
    fn check_layer(&self, layer: usize, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
    /// [`layers::charge_layer`].
    fn charge_layer(&self, layer: usize, policy: Option<&Policy>, arrival: &Arrival) -> Outcome;
}

macro_rules! of_family {
    ($address:ty, $($function:ident = $subprogram:ident = $body:path;)+) => {
        impl LayerCode for $address {$(
            #[inline(always)]
            fn $function(
                &self,
                layer: usize,
                policy: Option<&Policy>,
                arrival: &Arrival,
            ) -> Outcome {
                let (policy, at_ns) = (nullable(policy), arrival.at.as_nanos());
                decode($subprogram(layer as u64, self, policy, at_ns, pack(arrival)))
            }
        )+}
        $(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
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
    check_layer = check_layer_limits_v4 = layers::check_layer;
    charge_layer = charge_layer_limits_v4 = layers::charge_layer;
);
of_family!(
    Ipv6,
    check_layer = check_layer_limits_v6 = layers::check_layer;
    charge_layer = charge_layer_limits_v6 = layers::charge_layer;
);
