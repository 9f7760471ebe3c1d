//! Sending events.

use ratelimit_common::{
    Instant, Ipv4, Ipv6,
    charge::{Outcome, Refusal},
};

use super::{Subprograms, decode, encode};
use crate::events;

/// [`events::sample`].
#[inline(always)]
pub fn sample<A: Subprograms>(source: &A, refusal: Refusal, interface: u32, now: Instant) {
    let refusal = Outcome::refused(refusal.reason, refusal.limit.into());
    (A::SAMPLE)(source, encode(refusal), interface.into(), now.as_nanos());
}

macro_rules! of_families {
    ($($address:ty, $subprogram:ident;)+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        pub extern "C" fn $subprogram(
            source: *const $address,
            refusal: u64,
            interface: u64,
            at_ns: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of this type, or null.
            let source = unsafe { source.as_ref() };
            if let (Some(source), Some(refusal)) = (source, decode(refusal).refusal()) {
                events::sample(*source, refusal, interface as u32, Instant::from_nanos(at_ns));
            }
            0
        }
    )+};
}

of_families!(
    Ipv4, sample_drop_v4;
    Ipv6, sample_drop_v6;
);
