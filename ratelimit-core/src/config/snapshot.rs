//! Snapshots that keep usage over reboots: `[snapshot]`.

use std::{ops::RangeInclusive, time::Duration};

use smart_default::SmartDefault;

use super::{report::At, table::Section};

/// The default interval of snapshots.
pub const EVERY: Duration = Duration::from_mins(5);
const EVERY_RANGE: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_hours(24);
/// The shortest window whose usage is stored unless the configuration says otherwise.
const MIN_WINDOW: Duration = Duration::from_mins(1);
const MIN_WINDOW_RANGE: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_hours(100 * 24);
const HINT: &str = "write every = \"5m\", or false to take no snapshots";

/// The table.
#[derive(Clone, Copy, Debug, Eq, PartialEq, SmartDefault)]
pub struct Snapshots {
    /// The interval of snapshots; `None` if none is taken or restored.
    #[default(Some(EVERY))]
    pub every: Option<Duration>,
    /// The shortest window whose usage is stored.
    #[default(MIN_WINDOW)]
    pub min_window: Duration,
}

/// Reads `[snapshot]`.
pub(super) fn read(mut section: Section<'_>) -> At<Snapshots> {
    let every = section.take("every");
    let every = every.and_then(|value| {
        value.unless_false("it needs a duration", HINT, |value| {
            value.duration_in(&EVERY_RANGE, "5m")
        })
    });
    let value = Snapshots {
        every: every.unwrap_or(Some(EVERY)),
        min_window: section.duration("min_window", &MIN_WINDOW_RANGE, MIN_WINDOW),
    };
    let spot = section.finish();
    At { value, spot }
}
