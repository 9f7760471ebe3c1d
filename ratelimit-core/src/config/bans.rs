//! The default duration of a ban: `[ban]`.

use std::{ops::RangeInclusive, time::Duration};

use super::{report::At, table::Section};
use crate::ban::{LENGTH_MAX, LENGTH_MIN};

/// The time unless the configuration says otherwise.
pub const DEFAULT: Duration = Duration::from_hours(4);
const RANGE: RangeInclusive<Duration> = LENGTH_MIN..=LENGTH_MAX;

/// Reads `[ban]`; `None` is a ban without an end.
pub(super) fn read(mut section: Section<'_>) -> At<Option<Duration>> {
    let value = section.take("for").and_then(|value| {
        value.unless_false(
            "it needs a duration",
            "write for = \"4h\", or false for bans without an end",
            |value| value.duration_in(&RANGE, "4h"),
        )
    });
    let spot = section.finish();
    At {
        value: value.unwrap_or(Some(DEFAULT)),
        spot,
    }
}
