//! The time of a packet, from the clock that was chosen when the program was loaded.

use aya_ebpf::helpers::bpf_ktime_get_ns;
use ratelimit_common::{Instant, layout::clock};

use crate::{constant::Constant, maps::MANUAL_CLOCK};

/// One of [`clock`]'s constants. The verifier knows its value, and removes the branch that is not taken.
#[unsafe(no_mangle)]
static CLOCK: Constant<u32> = Constant::new(clock::PRECISE);

/// The time that this packet is judged at.
#[inline(always)]
pub fn now() -> Instant {
    if CLOCK.get() == clock::MANUAL {
        return Instant::from_nanos(MANUAL_CLOCK.get(0).copied().unwrap_or_default());
    }
    // SAFETY: the helper takes nothing and cannot fail.
    Instant::from_nanos(unsafe { bpf_ktime_get_ns() })
}
