//! The time of a packet, from the clock that the settings name.

use aya_ebpf::helpers::{bpf_ktime_get_coarse_ns, bpf_ktime_get_ns};
use ratelimit_common::{Instant, Settings, layout::clock};

use crate::{constant::Constant, maps::MANUAL_CLOCK};

/// One of [`clock`]'s constants. The verifier knows its value, and removes the branch that is not taken.
#[unsafe(no_mangle)]
static CLOCK: Constant<u32> = Constant::new(clock::KERNEL);

/// The time that this packet is judged at.
#[inline(always)]
pub fn now(settings: Settings) -> Instant {
    if CLOCK.get() != clock::MANUAL && settings.coarse_clock() {
        // SAFETY: the helper takes nothing and cannot fail. Both clocks count from the same start (kernel commit d05512618056).
        return Instant::from_nanos(unsafe { bpf_ktime_get_coarse_ns() });
    }
    precise()
}

/// The time of a packet for people to read: as precise as it can be, whatever packets are judged by.
#[inline(always)]
pub fn precise() -> Instant {
    if CLOCK.get() == clock::MANUAL {
        return Instant::from_nanos(MANUAL_CLOCK.get(0).copied().unwrap_or_default());
    }
    // SAFETY: as above.
    Instant::from_nanos(unsafe { bpf_ktime_get_ns() })
}
