//! How long it is kept what packets came, and whose limits are watched: `[history]`.

use std::{ops::RangeInclusive, time::Duration};

use super::{
    policy::{self, Policy},
    report::{At, Report},
    suggestion,
    table::{Section, Value},
};
use crate::{diagnostic::Problem, quantity, watched::Watched};

/// How long it is kept unless the configuration says otherwise.
pub const DEFAULT: Duration = Duration::from_hours(30 * 24);
const DAYS_MAX: u64 = 366;
const RANGE: RangeInclusive<Duration> =
    Duration::from_hours(1)..=Duration::from_hours(DAYS_MAX * 24);
const HINT: &str = "write keep = \"30d\", or false to keep nothing";
/// The most that is watched: the levels of each are read every second, and kept as long as the history.
const WATCHED_MAX: usize = 8;
const EXAMPLE: &str = "watch = [\"203.0.113.7\", \"policy:default\", \"node\"]";

/// The table.
#[derive(Clone, Debug)]
pub struct History {
    /// How long; `None` where nothing is kept.
    pub keep: Option<Duration>,
    /// Whose levels are kept.
    pub watch: Vec<At<Watched>>,
}

impl Default for History {
    fn default() -> Self {
        Self {
            keep: Some(DEFAULT),
            watch: Vec::new(),
        }
    }
}

/// Reads `[history]`.
pub(super) fn read(mut section: Section<'_>, report: &mut Report) -> At<History> {
    let keep = section.take("keep");
    let keep = keep.and_then(|value| read_keep(value, report));
    let watch = section.take("watch");
    let watch = watch.map_or(vec![], |value| read_watch(value, report));
    let spot = section.spot.clone();
    section.finish(report);
    let keep = keep.map_or(Some(DEFAULT), |keep| keep.value);
    let value = History { keep, watch };
    At { value, spot }
}

/// Whether there are the policies that are watched.
pub(super) fn check_policies(history: &History, policies: &[Policy], report: &mut Report) {
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

fn read_watch(value: Value<'_>, report: &mut Report) -> Vec<At<Watched>> {
    let mut watch: Vec<At<Watched>> = Vec::new();
    for item in value.list(EXAMPLE, report).unwrap_or_default() {
        let Some(At { value, spot }) = item.text(EXAMPLE, report) else {
            continue;
        };
        let problem = match value.parse() {
            Ok(it) if watch.iter().any(|known| known.value == it) => {
                Problem::new(format!("`watch` names {it} twice"), "remove it")
            }
            Ok(_) if watch.len() == WATCHED_MAX => {
                let message = format!("`watch` has more than {WATCHED_MAX} entries");
                Problem::new(message, "remove what you no longer look at")
            }
            Ok(value) => {
                watch.push(At { value, spot });
                continue;
            }
            Err(error) => Problem::from(error),
        };
        report.add(&spot, problem);
    }
    watch
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
