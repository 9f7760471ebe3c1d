//! The clock that bans end by: no step of the wall clock moves it, and it goes on over suspends and reboots.
//!
//! The kernel judges packets by its monotonic clock, which stands still while the machine sleeps and starts anew with each
//! boot; the wall clock can be set to anything. So there is a third one, the daemon's, and a ban ends on it:
//!
//! - Within a boot it runs with `CLOCK_BOOTTIME`. The wall clock is not asked.
//! - After a reboot it goes on from where it was last noted, plus the time for which the machine was off. That is what the wall clock
//!   advanced since that note, if that is plausible. It is not where it went back by more than [`BACK_MAX`] or on by more
//!   than [`OFF_MAX`]: the battery of a clock is empty, or somebody set it. Then the machine counts as not having been off,
//!   so that bans last longer and not shorter, until the wall clock becomes plausible (time arrives from the network).
//! - After a suspend the same end is another point on the kernel's clock, and the tables are filled again.

use jiff::Timestamp;
use ratelimit_common::Instant;

use crate::clock;

const SECOND: i64 = 1_000_000_000;

/// The longest time for which a machine is believed to have been off, in nanoseconds: a year.
pub const OFF_MAX: i64 = 366 * 24 * 3600 * SECOND;

/// How far a right wall clock may go back over a reboot, in nanoseconds: a minute, as a clock of the hardware is that exact.
pub const BACK_MAX: i64 = 60 * SECOND;

/// How long a note is good for, in nanoseconds.
const NOTE_LASTS: i64 = 60 * SECOND;

/// What two clocks that are read one after the other may differ by, and the shortest sleep that is distinguished from it: 100 ms.
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

/// A moment that was noted, on two clocks, in nanoseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Moment {
    /// What the daemon's clock showed.
    pub time: i64,
    /// What the wall clock showed.
    pub wall: i64,
}

/// What is noted of the daemon's clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Note {
    /// The boot in which it was written.
    pub boot: String,
    /// How far the daemon's clock is ahead of the time since that boot, in nanoseconds.
    pub ahead_ns: i64,
    /// For how long the machine had slept since that boot, in nanoseconds.
    pub asleep_ns: i64,
    /// When it was written.
    pub moment: Moment,
    /// The last moment of an earlier boot, where it is not known how long the machine was off after it.
    pub unsettled: Option<Moment>,
}

/// The daemon's clock.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Timekeeper {
    boot: String,
    ahead: i64,
    /// For how long the machine slept since it was booted.
    asleep: i64,
    unsettled: Option<Moment>,
    /// When the last note was written.
    noted: Option<Moment>,
}

impl Reading {
    /// What the clocks show.
    pub fn now() -> Self {
        Self {
            monotonic: signed(clock::now().as_nanos()),
            since_boot: signed(clock::since_boot().as_nanos()),
            wall: nanos(clock::wall()),
        }
    }
}

impl Timekeeper {
    /// Goes on from what was noted last; where nothing was, it begins with what the wall clock shows.
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

    /// Takes in what the clocks show, and answers whether the ends of bans are other points on the kernel's clock than before.
    pub fn advance(&mut self, now: Reading) -> bool {
        let settled = self.settle(now);
        self.notice_sleep(now) || settled
    }

    /// Whether it is time to write a note: the last is old, or the wall clock was set since.
    pub fn should_note(&self, now: Reading) -> bool {
        let moment = self.moment(now);
        self.noted.is_none_or(|noted| {
            let on = moment.time - noted.time;
            let stepped = (moment.wall - noted.wall - on).abs() > SECOND;
            on >= NOTE_LASTS || stepped
        })
    }

    /// What to note.
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

    /// The point on the daemon's clock that `instant`, one of the kernel's, is.
    pub fn time(&self, instant: Instant) -> i64 {
        signed(instant.as_nanos()).saturating_add(self.ahead + self.asleep)
    }

    /// The point on the kernel's clock that `time` is, if the machine does not sleep; the first one where that is before boot.
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

    /// Counts the time for which the machine was off, once the wall clock tells it.
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

/// Nanoseconds since 1970: the range of SQLite's integers ends in 2262, and so do bans.
pub fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or(i64::MAX)
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
