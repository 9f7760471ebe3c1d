//! The second allowance for established connections.

use aya_ebpf::bindings::xdp_md;
use ratelimit_common::{Arrival, Cursor, Ipv4, Ipv6, Policy, established};

use super::{Subprograms, nullable, pack, unknown, unpack};
use crate::tables::KernelTables;

/// [`established::charge`] of the packet of `context`.
#[inline(always)]
pub fn charge_established<A: Subprograms>(
    context: *mut xdp_md,
    source: &A,
    policy: Option<&Policy>,
    arrival: &Arrival,
) -> bool {
    let (policy, at_ns) = (nullable(policy), arrival.at.as_nanos());
    let answer = (A::CHARGE_ESTABLISHED)(context, source, policy, at_ns, pack(arrival));
    unknown(answer) != 0
}

macro_rules! of_family {
    ($address:ty, $subprogram:ident) => {
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            context: *mut xdp_md,
            source: *const $address,
            policy: *const Policy,
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let (Some(source), policy) = (unsafe { (source.as_ref(), policy.as_ref()) }) else {
                return 0;
            };
            let arrival = unpack(at_ns, packet);
            let tables = KernelTables::new(context, arrival.at, arrival.settings);
            // The frame is read from the context.
            let frame = Cursor::new(&[]);
            established::charge(source, policy, frame, &arrival, &tables).into()
        }
    };
}

of_family!(Ipv4, charge_established_v4);
of_family!(Ipv6, charge_established_v6);
