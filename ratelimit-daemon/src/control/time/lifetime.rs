//! How long something set at runtime holds: so many seconds from now on, or forever.

use std::time::Duration;

use jiff::Timestamp;
use ratelimit_common::Instant;
use ratelimit_core::{api::Refused, intent::FOREVER};

use crate::clock;

/// The longest time that is not forever: 100 years.
const TERM_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// The end of `what`, for example `a ban`, that lasts so many seconds from now on; none is forever.
pub fn until(what: &str, seconds: Option<f64>) -> Result<Instant, Refused> {
    match seconds {
        None => Ok(FOREVER),
        Some(seconds) => Ok(clock::after(duration(what, seconds)?)),
    }
}

/// How long `what` lasts.
pub fn duration(what: &str, seconds: f64) -> Result<Duration, Refused> {
    let duration = Duration::try_from_secs_f64(seconds).ok();
    let duration = duration.filter(|duration| !duration.is_zero() && *duration <= TERM_MAX);
    duration.ok_or_else(|| {
        Refused::because(format!(
            "the duration of {what}, {seconds} s, is not between 1ns and 100 years"
        ))
        .hint(format!(
            "use a shorter duration, or omit it for {what} without an end"
        ))
    })
}

/// An end as it is reported; none is forever.
pub fn reported(until: Instant) -> Option<Timestamp> {
    (until != FOREVER).then(|| clock::to_wall(until))
}

/// Turns ends on the wall clock into ends on the clock of the kernel.
pub struct Ends {
    instant: Instant,
    wall: Timestamp,
    /// The end of what has none of its own.
    default: Instant,
}

impl Ends {
    /// As both clocks stand now.
    pub fn now(default: Option<Duration>) -> Self {
        Self {
            instant: clock::now(),
            wall: clock::wall(),
            default: default.map_or(FOREVER, clock::after),
        }
    }

    /// An end on the clock of the kernel.
    pub fn of(&self, until: Option<Timestamp>) -> Instant {
        let Some(until) = until else {
            return self.default;
        };
        let ahead = until.duration_since(self.wall).as_nanos();
        let nanos = i128::from(self.instant.as_nanos()) + ahead;
        // The last point stands for "forever".
        let nanos = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        Instant::from_nanos(nanos.min(u64::MAX - 2) | 1)
    }
}
