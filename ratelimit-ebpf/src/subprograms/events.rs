//! Sending events.

use aya_ebpf::bindings::xdp_md;
use ratelimit_common::{
    Instant, Ipv4, Ipv6,
    charge::{Outcome, Refusal},
};

use super::{Subprograms, decode, encode};
use crate::events;

/// The interface of a packet stands above the refusal.
const INTERFACE_SHIFT: u32 = 32;

/// [`events::sample`].
#[inline(always)]
pub fn sample<A: Subprograms>(
    context: *mut xdp_md,
    source: &A,
    refusal: Refusal,
    interface: u32,
    now: Instant,
) {
    let refusal = Outcome::refused(refusal.reason, refusal.limit.into());
    let refusal = encode(refusal) | u64::from(interface) << INTERFACE_SHIFT;
    (A::SAMPLE)(context, source, refusal, now.as_nanos());
}

macro_rules! of_families {
    ($($address:ty, $subprogram:ident;)+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            context: *mut xdp_md,
            source: *const $address,
            refusal: u64,
            at_ns: u64,
        ) -> u64 {
            let interface = (refusal >> INTERFACE_SHIFT) as u32;
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let source = unsafe { source.as_ref() };
            if let (Some(source), Some(refusal)) = (source, decode(refusal).refusal()) {
                events::sample(context, source, refusal, interface, Instant::from_nanos(at_ns));
            }
            0
        }
    )+};
}

of_families!(
    Ipv4, sample_drop_v4;
    Ipv6, sample_drop_v6;
);
