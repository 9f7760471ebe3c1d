//! The clocks, which only this module reads: the one that packets are judged by, and the one that
//! people read.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module that others ask"
)]

use std::{
    fs,
    time::{self, Duration},
};

use jiff::{SignedDuration, Timestamp};
use ratelimit_common::Instant;
use ratelimit_core::intent::renewed::later;
use rustix::time::{ClockId, clock_getres};
use tokio::time::{Interval, MissedTickBehavior, interval};

/// Returns the kernel's monotonic clock, like `bpf_ktime_get_ns`. It pauses while the machine
/// sleeps.
pub fn now() -> Instant {
    read(libc::CLOCK_MONOTONIC)
}

/// The monotonic clock as the standard library has it, to measure how long something takes.
pub fn monotonic() -> time::Instant {
    time::Instant::now()
}

/// The time that passed since a point on the monotonic clock.
pub fn elapsed(since: time::Instant) -> Duration {
    since.elapsed()
}

/// Returns the wall clock.
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// Returns the wall clock in milliseconds since 1970.
pub fn wall_millis() -> u64 {
    wall().as_millisecond().try_into().unwrap_or_default()
}

/// Returns the time since boot, including time asleep.
pub fn since_boot() -> Instant {
    read(libc::CLOCK_BOOTTIME)
}

fn read(clock: libc::clockid_t) -> Instant {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the clocks exist since Linux 2.6.39, and `time` outlives the call.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanos = u64::try_from(time.tv_nsec).unwrap_or_default();
    Instant::from_nanos(seconds * 1_000_000_000 + nanos)
}

/// Returns the resolution of the coarse clock, which advances with every timer interrupt, like the
/// kernel's own coarse clock.
pub fn tick() -> Duration {
    let tick = clock_getres(ClockId::MonotonicCoarse);
    tick.try_into().unwrap_or_default()
}

/// Ticks, starting immediately. A late tick delays the following ones.
pub fn ticks(period: Duration) -> Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Returns the time of the monotonic clock after `duration`.
pub fn after(duration: Duration) -> Instant {
    later(now(), duration)
}

/// Converts a time of the monotonic clock to the wall clock, in milliseconds. The result stays the
/// same until the wall clock is set.
pub fn to_wall(instant: Instant) -> Timestamp {
    let ahead = i128::from(instant.as_nanos()) - i128::from(now().as_nanos());
    let ahead = SignedDuration::from_nanos(i64::try_from(ahead).unwrap_or(i64::MAX));
    let time = wall().saturating_add(ahead).unwrap_or(Timestamp::MAX);
    time.round(jiff::Unit::Millisecond).unwrap_or(time)
}

/// Identifies this boot of the machine: the monotonic clock starts from zero with each.
pub fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coarse_clock_ticks_100_to_1000_times_a_second() {
        let tick = tick();
        let (least, most) = (Duration::from_micros(900), Duration::from_millis(11));
        assert!((least..=most).contains(&tick), "{tick:?}");
    }
}
