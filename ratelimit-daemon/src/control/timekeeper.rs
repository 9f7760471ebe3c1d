//! The clock that bans end by: no step of the wall clock moves it, and it goes on over suspends and reboots.
//!
//! The kernel judges packets by its monotonic clock, which stands still while the machine sleeps and starts anew with each
//! boot; the wall clock can be set to anything. So there is a third one, the daemon's. Within a boot it runs with
//! `CLOCK_BOOTTIME`. At the first start after a reboot it goes on from where it was last noted, plus the time for which the
//! machine was off, as far as that is known.

use jiff::Timestamp;
use ratelimit_common::Instant;

use crate::clock;

/// The longest time for which a machine is believed to have been off, in nanoseconds: a year.
const OFF_MAX: i64 = 366 * 24 * 3600 * 1_000_000_000;

/// What two clocks that are read one after the other may differ by, and the shortest sleep that is told from it: 100 ms.
const SLEEP_MIN: i64 = 100_000_000;

/// What the kernel's clocks show at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    /// `CLOCK_MONOTONIC`.
    pub monotonic: i64,
    /// `CLOCK_BOOTTIME`.
    pub since_boot: i64,
    /// Since 1970, on the wall clock.
    pub wall: i64,
}

/// What is noted of the daemon's clock, for the next boot.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// The boot in which it was written.
    pub boot: String,
    /// How far the daemon's clock is ahead of the time since that boot.
    pub ahead_ns: i64,
    /// For how long the machine had slept since that boot.
    pub asleep_ns: i64,
    /// What the daemon's clock showed.
    pub time_ns: i64,
    /// What the wall clock showed.
    pub wall_ns: i64,
}

/// The daemon's clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Timekeeper {
    boot: String,
    ahead: i64,
    /// For how long the machine slept since it was booted.
    asleep: i64,
}

impl Reading {
    /// What the clocks show.
    #[must_use]
    pub fn now() -> Self {
        Self {
            monotonic: signed(clock::now().as_nanos()),
            since_boot: signed(clock::since_boot().as_nanos()),
            wall: nanos(Timestamp::now()),
        }
    }
}

impl Timekeeper {
    /// Goes on from what was noted last; where nothing was, it begins with what the wall clock shows.
    #[must_use]
    pub fn resume(last: Option<&Note>, boot: &str, now: Reading) -> Self {
        let ahead = match last {
            None => now.wall - now.since_boot,
            Some(last) if last.boot == boot => last.ahead_ns,
            Some(last) => {
                let off = now.wall.saturating_sub(last.wall_ns);
                let off = if (0..=OFF_MAX).contains(&off) { off } else { 0 };
                last.time_ns + off - now.since_boot
            }
        };
        let same_boot = last.filter(|last| last.boot == boot);
        let mut keeper = Self {
            boot: boot.to_owned(),
            ahead,
            asleep: same_boot.map_or(0, |last| last.asleep_ns),
        };
        keeper.notice_sleep(now);
        keeper
    }

    /// Answers whether the machine slept since it was last asked. Then the same time is another point on the kernel's clock.
    pub fn notice_sleep(&mut self, now: Reading) -> bool {
        let asleep = now.since_boot - now.monotonic;
        let slept = asleep - self.asleep >= SLEEP_MIN;
        if slept {
            self.asleep = asleep;
        }
        slept
    }

    /// What to note.
    #[must_use]
    pub fn note(&self, now: Reading) -> Note {
        Note {
            boot: self.boot.clone(),
            ahead_ns: self.ahead,
            asleep_ns: self.asleep,
            time_ns: self.ahead + now.since_boot,
            wall_ns: now.wall,
        }
    }

    /// The point on the daemon's clock that `instant`, one of the kernel's, is.
    #[must_use]
    pub fn time(&self, instant: Instant) -> i64 {
        signed(instant.as_nanos()).saturating_add(self.ahead + self.asleep)
    }

    /// The point on the kernel's clock that `time` is, if the machine does not sleep; the first one where that is before boot.
    #[must_use]
    pub fn instant(&self, time: i64) -> Instant {
        let instant = time.saturating_sub(self.ahead + self.asleep);
        Instant::from_nanos(u64::try_from(instant).unwrap_or_default())
    }
}

/// Nanoseconds since 1970: the range of SQLite's integers ends in 2262, and so do bans.
pub fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}
