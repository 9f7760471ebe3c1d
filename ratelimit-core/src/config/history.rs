//! The retention of the traffic history, and the watched limits: `[history]`.

use std::{ops::RangeInclusive, time::Duration};

use smart_default::SmartDefault;

use super::{
    policy::{self, Policy},
    report::{At, Report},
    suggestion,
    table::{Section, Value},
};
use crate::watched::Watched;

/// The default retention.
pub const DEFAULT: Duration = Duration::from_hours(30 * 24);
const RANGE: RangeInclusive<Duration> = Duration::from_hours(1)..=Duration::from_hours(366 * 24);
const HINT: &str = "write retention = \"30d\", or false to keep nothing";
/// The most that is watched: the levels of each are read every second, and kept as long as the
/// history.
const WATCHED_MAX: usize = 8;
const EXAMPLE: &str = "watch = [\"203.0.113.7\", \"policy:default\", \"node\"]";

/// The table.
#[derive(Clone, Debug, SmartDefault)]
pub struct History {
    /// The retention; `None` if nothing is kept.
    #[default(Some(DEFAULT))]
    pub keep: Option<Duration>,
    /// The watched limits.
    pub watch: Vec<At<Watched>>,
}

/// Reads `[history]`.
pub(super) fn read(mut section: Section<'_>) -> At<History> {
    let keep = section.take("retention");
    let keep = keep.and_then(|value| {
        value.unless_false("it needs a duration", HINT, |value| {
            value.duration_in(&RANGE, "30d")
        })
    });
    let watch = section.take("watch").map_or(vec![], read_watch);
    let keep = keep.unwrap_or(Some(DEFAULT));
    let value = History { keep, watch };
    let spot = section.finish();
    At { value, spot }
}

/// Whether there are the policies that are watched.
pub(super) fn check_policies(history: &History, policies: &[Policy], report: &Report) {
    let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
    for At { value, spot } in &history.watch {
        if let Watched::Policy(name) = value
            && !names.contains(&name.as_str())
            && name != policy::DEFAULT
        {
            let message = format!("there is no [policy.{name}]");
            let known: Vec<String> = names.iter().map(|name| format!("policy:{name}")).collect();
            let known: Vec<&str> = known.iter().map(String::as_str).collect();
            let suggested = suggestion::word(&value.to_string(), &known);
            report.add(spot, suggested.for_problem(&message));
        }
    }
}

fn read_watch(value: Value<'_>) -> Vec<At<Watched>> {
    let mut watch: Vec<At<Watched>> = Vec::new();
    for item in value.list(EXAMPLE).unwrap_or_default() {
        match item.parsed(EXAMPLE) {
            None => {}
            Some(it) if watch.iter().any(|known| known.value == it) => {
                item.complain(format!("`watch` names {it} twice"), "remove it");
            }
            Some(_) if watch.len() == WATCHED_MAX => {
                let message = format!("`watch` has more than {WATCHED_MAX} entries");
                item.complain(message, "remove entries that you no longer need");
            }
            Some(it) => watch.push(item.at(it)),
        }
    }
    watch
}
