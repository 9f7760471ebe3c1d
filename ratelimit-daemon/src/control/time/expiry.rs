//! The duration of runtime settings: a number of seconds, or forever.

use std::time::Duration;

use jiff::Timestamp;
use ratelimit_common::Instant;
use ratelimit_core::{api::Refused, intent::FOREVER};

use crate::clock;

/// The longest limited duration: 100 years.
const TERM_MAX: Duration = Duration::from_hours(100 * 365 * 24);

/// Returns the end of `what`, for example `a ban`, that lasts `seconds` from now. `None` is
/// forever.
pub fn until(what: &str, seconds: Option<f64>) -> Result<Instant, Refused> {
    match seconds {
        None => Ok(FOREVER),
        Some(seconds) => Ok(clock::after(duration(what, seconds)?)),
    }
}

/// Returns the duration of `what`.
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

/// Returns an end for reports. `None` is forever.
pub fn reported(until: Instant) -> Option<Timestamp> {
    (until != FOREVER).then(|| clock::to_wall(until))
}

/// Converts ends on the wall clock to ends on the clock of the kernel.
pub struct Ends {
    instant: Instant,
    wall: Timestamp,
    /// The end of entries without their own.
    default: Instant,
}

impl Ends {
    /// Reads both clocks.
    pub fn now(default: Option<Duration>) -> Self {
        Self {
            instant: clock::now(),
            wall: clock::wall(),
            default: default.map_or(FOREVER, clock::after),
        }
    }

    /// Returns an end on the clock of the kernel.
    pub fn of(&self, until: Option<Timestamp>) -> Instant {
        let Some(until) = until else {
            return self.default;
        };
        let ahead = until.duration_since(self.wall).as_nanos();
        let nanos = i128::from(self.instant.as_nanos()) + ahead;
        // The last value means "forever".
        let nanos = u64::try_from(nanos.max(0)).unwrap_or(u64::MAX);
        Instant::from_nanos(nanos.min(u64::MAX - 2) | 1)
    }
}
