//! The clock for the ends of bans. Steps of the wall clock do not affect it, and it continues over
//! suspends and reboots.
//!
//! The kernel judges packets by its monotonic clock, which stops during suspend and restarts at
//! each boot; the wall clock can be set to anything. So bans end by a third clock, that of the
//! daemon:
//!
//! - Within a boot it advances with `CLOCK_BOOTTIME`. The wall clock is not used.
//! - After a reboot it continues from its last note, plus the time for which the machine was off.
//!   That is the advance of the wall clock since the note, if it is plausible: it did not go back
//!   by more than [`BACK_MAX`] nor forward by more than [`OFF_MAX`], as with an empty clock
//!   battery. Otherwise no time is added, so that bans last longer rather than shorter, until the
//!   wall clock becomes plausible (time arrives from the network).
//! - After a suspend, the same end is at another point on the kernel's clock, and the tables are
//!   filled again.

use jiff::Timestamp;
use ratelimit_common::Instant;

use crate::clock;

const SECOND: i64 = 1_000_000_000;

/// The longest plausible time for which a machine was off, in nanoseconds: a year.
pub const OFF_MAX: i64 = 366 * 24 * 3600 * SECOND;

/// The largest step back of a correct wall clock over a reboot, in nanoseconds: a minute, the
/// precision of hardware clocks.
pub const BACK_MAX: i64 = 60 * SECOND;

/// The lifetime of a note, in nanoseconds.
const NOTE_LASTS: i64 = 60 * SECOND;

/// The largest difference from reading two clocks one after the other, and so the shortest
/// detectable suspend: 100 ms.
const SLEEP_MIN: i64 = 100_000_000;

/// The readings of the kernel's clocks at one point, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Reading {
    pub monotonic: i64,
    pub since_boot: i64,
    /// The wall clock, since 1970.
    pub wall: i64,
}

/// A recorded moment on two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moment {
    /// The daemon's clock.
    pub time: i64,
    /// The wall clock.
    pub wall: i64,
}

/// A stored note of the daemon's clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// The ID of the boot that wrote the record.
    pub boot: String,
    /// The lead of the daemon's clock over the time since boot, in nanoseconds.
    pub ahead_ns: i64,
    /// The time for which the machine had been suspended since boot, in nanoseconds.
    pub asleep_ns: i64,
    pub moment: Moment,
    /// The last moment of an earlier boot, if it is not known how long the machine was off after
    /// it.
    pub unsettled: Option<Moment>,
}

#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BanClock {
    boot: String,
    ahead: i64,
    /// The time for which the machine has been suspended since boot, in nanoseconds.
    asleep: i64,
    unsettled: Option<Moment>,
    /// The moment of the last written note.
    noted: Option<Moment>,
}

impl Reading {
    /// Reads the clocks.
    pub fn now() -> Self {
        Self {
            monotonic: signed(clock::now().as_nanos()),
            since_boot: signed(clock::since_boot().as_nanos()),
            wall: nanos(clock::wall()),
        }
    }
}

impl BanClock {
    /// Continues from the last note or, without one, starts with the wall clock.
    pub fn resume(last: Option<&Note>, boot: &str, now: Reading) -> Self {
        let mut keeper = Self {
            boot: boot.to_owned(),
            ahead: now.wall - now.since_boot,
            asleep: 0,
            unsettled: None,
            noted: None,
        };
        match last {
            None => {}
            Some(last) if last.boot == boot => {
                keeper.ahead = last.ahead_ns;
                keeper.asleep = last.asleep_ns;
                keeper.unsettled = last.unsettled;
            }
            Some(last) => {
                keeper.ahead = last.moment.time - now.since_boot;
                keeper.unsettled = Some(last.moment);
                keeper.settle(now);
                keeper.unsettled = last.unsettled.or(keeper.unsettled);
            }
        }
        keeper.advance(now);
        keeper
    }

    /// Processes the readings, and returns whether ends of bans have moved on the kernel's clock.
    pub fn advance(&mut self, now: Reading) -> bool {
        let settled = self.settle(now);
        self.notice_sleep(now) || settled
    }

    /// Returns whether to write a note: the last one is old, or the wall clock was set since.
    pub fn should_note(&self, now: Reading) -> bool {
        let moment = self.moment(now);
        self.noted.is_none_or(|noted| {
            let on = moment.time - noted.time;
            let stepped = (moment.wall - noted.wall - on).abs() > SECOND;
            on >= NOTE_LASTS || stepped
        })
    }

    /// Returns the note to write.
    pub fn note(&mut self, now: Reading) -> Note {
        let moment = self.moment(now);
        self.noted = Some(moment);
        Note {
            boot: self.boot.clone(),
            ahead_ns: self.ahead,
            asleep_ns: self.asleep,
            moment,
            unsettled: self.unsettled,
        }
    }

    /// Converts an instant of the kernel's clock to the daemon's clock.
    pub fn time(&self, instant: Instant) -> i64 {
        signed(instant.as_nanos()).saturating_add(self.ahead + self.asleep)
    }

    /// Converts `time` to the kernel's clock, assuming no suspend. A time before boot becomes the
    /// first instant.
    pub fn instant(&self, time: i64) -> Instant {
        let instant = time.saturating_sub(self.ahead + self.asleep);
        Instant::from_nanos(u64::try_from(instant).unwrap_or_default())
    }

    fn moment(&self, now: Reading) -> Moment {
        Moment {
            time: self.ahead + now.since_boot,
            wall: now.wall,
        }
    }

    /// Adds the time for which the machine was off, once the wall clock is plausible.
    fn settle(&mut self, now: Reading) -> bool {
        let Some(last) = self.unsettled else {
            return false;
        };
        let off = now.wall.saturating_sub(last.wall) - (self.moment(now).time - last.time);
        if !(-BACK_MAX..=OFF_MAX).contains(&off) {
            return false;
        }
        self.unsettled = None;
        self.ahead += off.max(0);
        off > 0
    }

    fn notice_sleep(&mut self, now: Reading) -> bool {
        let asleep = now.since_boot - now.monotonic;
        let slept = asleep - self.asleep >= SLEEP_MIN;
        if slept {
            self.asleep = asleep;
        }
        slept
    }
}

/// Returns nanoseconds since 1970. The range of SQLite's integers, and so of bans, ends in 2262.
pub fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
