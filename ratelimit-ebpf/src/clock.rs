//! The time of a packet, from the clock that the settings name.

use aya_ebpf::helpers::{bpf_jiffies64, bpf_ktime_get_ns};
use ratelimit_common::{
    Instant, Settings,
    cpu_state::{CpuState, Tick},
    features::{self, Feature},
};

use crate::maps::MANUAL_CLOCK;

/// The time for judging this packet. If programs on a CPU can interrupt each other, the clock is
/// never coarse.
///
/// # Safety
///
/// `cpu_state` points to a live map value of this CPU, and no reference to it exists.
#[inline(always)]
pub unsafe fn now(settings: Settings, cpu_state: *mut CpuState) -> Instant {
    if settings.coarse_clock() {
        // SAFETY: the caller's.
        return coarse(unsafe { &mut (*cpu_state).tick });
    }
    precise()
}

/// The time of a packet for people to read: as precise as it can be, whatever packets are judged
/// by.
#[inline(always)]
pub fn precise() -> Instant {
    if features::is_enabled::<{ Feature::ManualClock as u8 }>() {
        return Instant::from_nanos(*MANUAL_CLOCK.get());
    }
    // SAFETY: the helper takes nothing and cannot fail.
    Instant::from_nanos(unsafe { bpf_ktime_get_ns() })
}

/// The time of the first packet on this CPU in the current tick. It is early by less than a tick,
/// like `bpf_ktime_get_coarse_ns`, which costs a call: the verifier replaces `bpf_jiffies64` by a
/// load (kernel commit 5576b991e9c1).
///
/// If the CPU that keeps the time is stalled, a CPU that sees no tick for five of its own takes
/// over (`MAX_STALLED_JIFFIES` of `kernel/time/tick-sched.c`, since Linux 5.18). So it is early by
/// six ticks at most; not on a CPU without ticks (`nohz_full`).
#[inline(always)]
fn coarse(tick: &mut Tick) -> Instant {
    // SAFETY: the helper takes nothing and cannot fail.
    let jiffies = unsafe { bpf_jiffies64() };
    // Jiffies begin 5 minutes before 2^32, so they never equal the initial 0.
    if tick.jiffies != jiffies {
        *tick = Tick {
            jiffies,
            at_ns: precise().as_nanos(),
        };
    }
    Instant::from_nanos(tick.at_ns)
}
