//! Charging the limits of a packet one layer at a time.

use ratelimit_common::{Arrival, Ipv4, Ipv6, Policy, charge::Outcome, layers};

use super::{NOTHING, decode, encode, nullable, pack, unpack};
use crate::tables::KernelTables;

/// The layers of an address family.
macro_rules! of_layers {
    ($address:ty, $($function:ident = $subprogram:ident = $body:path),+) => {$(
        /// The function of the same name in `ratelimit-common`.
        #[inline(always)]
        pub fn $function(
            layer: usize,
            source: &$address,
            policy: Option<&Policy>,
            arrival: &Arrival,
        ) -> Outcome {
            decode($subprogram(
                layer as u64,
                source,
                nullable(policy),
                arrival.at.as_nanos(),
                pack(arrival),
            ))
        }

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
            let tables = KernelTables::at(arrival.at);
            encode($body(layer as usize, source, policy, &arrival, &tables))
        }
    )+};
}

of_layers!(
    Ipv4,
    check_layer_v4 = check_layer_limits_v4 = layers::check_layer,
    charge_layer_v4 = charge_layer_limits_v4 = layers::charge_layer
);
of_layers!(
    Ipv6,
    check_layer_v6 = check_layer_limits_v6 = layers::check_layer,
    charge_layer_v6 = charge_layer_limits_v6 = layers::charge_layer
);
