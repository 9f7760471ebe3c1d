//! The destination of a packet: its policy, and charging the limits of that.

use aya_ebpf::{bindings::xdp_md, programs::XdpContext};
use ratelimit_common::{
    Arrival, Instant, Ipv4, Ipv6, Policy, Settings,
    charge::Outcome,
    generation::Generation,
    layers::{self, NO_DESTINATION},
    parse::{Payload, ipv4, ipv6, network},
};

use super::{NOTHING, Subprograms, decode, encode, inner, nullable, pack, unknown, unpack};
use crate::{frame, interface::link_layer, lists, tables::KernelTables};

/// [`lists::destination`] of the packet of `context`, of which the address is read again.
#[inline(always)]
pub fn destination<A: Subprograms>(context: *mut xdp_md, now: Instant, settings: Settings) -> u32 {
    let generation = settings.generation() as u64;
    unknown((A::FIND_DESTINATION)(context, now.as_nanos(), generation)) as u32
}

/// [`layers::charge_destination`].
#[inline(always)]
pub fn charge_destination<A: Subprograms>(
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> Outcome {
    let (policy, at_ns) = (nullable(policy), arrival.at.as_nanos());
    decode((A::CHARGE_DESTINATION)(
        source,
        policy,
        at_ns,
        pack(arrival),
    ))
}

macro_rules! of_family {
    ($address:ty, $payload:pat, $addresses:path, $find_destination:ident, $charge_destination:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $find_destination(
            context: *mut xdp_md,
            at_ns: u64,
            generation: u64,
        ) -> u64 {
            let inner = inner(context);
            let context = XdpContext::new(context);
            let (mut cursor, _) = frame::again(&context);
            let Ok($payload) = network(&mut cursor, link_layer(), inner) else {
                return NO_DESTINATION.into();
            };
            let Some([_, destination]) = $addresses(cursor) else {
                return NO_DESTINATION.into();
            };
            let now = Instant::from_nanos(at_ns);
            let generation = match generation {
                0 => Generation::First,
                _ => Generation::Second,
            };
            let settings = Settings::new(0, false).in_generation(generation);
            lists::destination(destination, now, settings).into()
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $charge_destination(
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
            encode(layers::charge_destination(
                source, policy, &arrival, &tables,
            ))
        }
    };
}

of_family!(
    Ipv4,
    Payload::Ipv4,
    ipv4::addresses,
    find_destination_v4,
    charge_destination_v4
);
of_family!(
    Ipv6,
    Payload::Ipv6,
    ipv6::addresses,
    find_destination_v6,
    charge_destination_v6
);
