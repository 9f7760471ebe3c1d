//! Sending events.

use ratelimit_common::{
    Instant, Ipv4, Ipv6,
    charge::{Outcome, Refusal},
};

use super::{decode, encode};
use crate::events;

/// Events about a source.
pub trait EventCode {
    /// [`events::sample`].
    fn sample(&self, refusal: Refusal, interface: u32, now: Instant);
}

macro_rules! of_families {
    ($($address:ty, $subprogram:ident;)+) => {$(
        impl EventCode for $address {
            #[inline(always)]
            fn sample(&self, refusal: Refusal, interface: u32, now: Instant) {
                let refusal = Outcome::refused(refusal.reason, refusal.limit.into());
                $subprogram(self, encode(refusal), interface.into(), now.as_nanos());
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $subprogram(
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
