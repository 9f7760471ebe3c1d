//! How long it is kept what packets came: `[history]`.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    report::{At, Report},
    table::{Section, Value},
};
use crate::{diagnostic::Problem, quantity};

/// How long it is kept unless the configuration says otherwise.
pub const DEFAULT: Duration = Duration::from_hours(30 * 24);
const DAYS_MAX: u64 = 366;
const RANGE: RangeInclusive<Duration> =
    Duration::from_hours(1)..=Duration::from_hours(DAYS_MAX * 24);
const HINT: &str = "write keep = \"30d\", or false to keep nothing";

/// Reads `[history]`: how long, and `None` where nothing is kept.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> At<Option<Duration>> {
    let keep = section.take("keep");
    let keep = keep.and_then(|value| read_keep(value, report));
    let spot = section.spot.clone();
    section.finish(report);
    let value = keep.map_or(Some(DEFAULT), |keep| keep.value);
    At { value, spot }
}

/// A duration, or `false`; `None` in place of what is wrong, and reported.
fn read_keep(value: Value<'_>, report: &mut Report) -> Option<At<Option<Duration>>> {
    let (spot, message) = if value.is_boolean() {
        let flag = value.boolean(report)?;
        if !flag.value {
            return Some(flag.map(|_| None));
        }
        (
            flag.spot,
            "`keep` is true: it is not said how long".to_owned(),
        )
    } else {
        let At { value, spot } = value.text("keep = \"30d\", or false to keep nothing", report)?;
        match quantity::parse_duration(&value) {
            Ok(keep) if RANGE.contains(&keep) => {
                return Some(At {
                    value: Some(keep),
                    spot,
                });
            }
            Ok(_) => (
                spot,
                format!("`keep` is {value}, which is not between 1h and {DAYS_MAX}d"),
            ),
            Err(error) => {
                report.add(&spot, Problem::from(error));
                return None;
            }
        }
    };
    report.add(&spot, Problem::new(message, HINT));
    None
}
