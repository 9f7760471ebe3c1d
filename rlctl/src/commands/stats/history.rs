//! `rlctl stats --since`: packets of the last days, and remaining quota of watched sources.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp, Zoned};
use ratelimit_core::{
    api::{History, HistoryRequest, LevelHistory, PastAttack, VerdictHistory},
    watched::Watched,
};

use super::per_second;
use crate::{
    client::{self, Answer, Client},
    commands::stats::StatsArguments,
    failure::Failure,
    phrase,
    report::Report,
    table::Table,
};

/// The period, unless one is named.
const PERIOD: Duration = Duration::from_hours(1);
/// Rows, unless their length is named.
const ROWS: u64 = 24;
/// Reasons that a row names.
const REASONS: usize = 2;

/// Shows rates of packets, the oldest first, and the attacks.
pub fn run(arguments: &StatsArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let period = arguments.since.unwrap_or(PERIOD);
    let since = SignedDuration::try_from(period).ok();
    let from = since.and_then(|since| now.timestamp().checked_sub(since).ok());
    let of_a_row = || period.as_secs().div_ceil(ROWS).max(1);
    let step = arguments.interval.map_or_else(of_a_row, |it| it.as_secs());
    let request = HistoryRequest {
        from,
        to: None,
        step: u32::try_from(step).ok(),
    };
    let answer: Answer<History> = client.get(&client::with_query("/v1/history", &request))?;
    if let Some(source) = &arguments.quota {
        let text = levels(&answer.value, source, now)?;
        return Ok(Report::new(answer, text));
    }
    let text = text(&answer.value, now);
    if answer.value.observed_seconds.iter().all(|it| *it == 0) {
        return Ok(Report::new(answer, "").note("no packets recorded in this period"));
    }
    Ok(Report::new(answer, text))
}

fn text(history: &History, now: &Zoned) -> String {
    let mut table =
        Table::new("FROM | >PASSED/S | >DROPPED/S | >OBSERVED/S | >BYTES/S | DROPPED FOR");
    for (point, observed) in history.observed_seconds.iter().enumerate() {
        let at = phrase::moment(begin(history, point), now);
        if *observed == 0 {
            table.row([&at, "-", "-", "-", "-", ""].map(str::to_owned));
            continue;
        }
        let rate = |count: u64| phrase::rate(per_second(count, f64::from(*observed)));
        let packets = |action: &str| {
            let own = history.verdicts.iter().filter(|it| it.action == action);
            rate(own.map(|it| it.packets[point]).sum())
        };
        let bytes = history.verdicts.iter().map(|it| it.bytes[point]).sum();
        table.row([
            at,
            packets("pass"),
            packets("drop"),
            packets("observe"),
            rate(bytes),
            reasons(&history.verdicts, point),
        ]);
    }
    let attacks = history.attacks.iter().map(|it| attack(it, now));
    let attacks: Vec<String> = attacks.collect();
    if attacks.is_empty() {
        return table.to_string();
    }
    format!("{table}\n\nattacks:\n{}", attacks.join("\n"))
}

/// Lists the remaining quota of each limit of a source, oldest first.
fn levels(history: &History, source: &Watched, now: &Zoned) -> Result<String, Failure> {
    let name = source.to_string();
    let own = history.levels.iter().filter(|it| it.watched == name);
    let tables: Vec<String> = own.map(|it| level(history, it, now)).collect();
    if tables.is_empty() {
        let error = format!("no quota of {name} recorded in this period");
        let hint = format!(
            "add it to `watch` in [history], watch = [\"{name}\"], then `rlctl reload`; recording \
             starts then"
        );
        return Err(Failure::refused(error).hint(hint));
    }
    Ok(tables.join("\n\n"))
}

fn level(history: &History, level: &LevelHistory, now: &Zoned) -> String {
    let mut table = Table::new("FROM | >LEFT");
    for (point, least) in level.left.iter().enumerate() {
        let reported = least.map(|least| level.limit.unit().amount(least));
        let at = phrase::moment(begin(history, point), now);
        table.row([at, reported.unwrap_or_else(|| "-".into())]);
    }
    format!("{}, of {}:\n{table}", level.watched, level.limit)
}

fn begin(history: &History, point: usize) -> Timestamp {
    let seconds = i64::try_from(point).unwrap_or(i64::MAX);
    let ahead = SignedDuration::from_secs(seconds.saturating_mul(history.step_seconds.into()));
    history.from.saturating_add(ahead).unwrap_or(history.to)
}

/// The reasons of most drops.
fn reasons(verdicts: &[VerdictHistory], point: usize) -> String {
    let drops = verdicts.iter().filter(|it| it.action == "drop");
    let drops = drops.map(|it| (it.packets[point], it.reason.as_str()));
    let mut drops: Vec<(u64, &str)> = drops.filter(|(packets, _)| *packets > 0).collect();
    drops.sort_by(|left, right| right.cmp(left));
    let names: Vec<&str> = drops
        .iter()
        .take(REASONS)
        .map(|(_, reason)| *reason)
        .collect();
    names.join(", ")
}

fn attack(attack: &PastAttack, now: &Zoned) -> String {
    let PastAttack { kind, subject, .. } = attack;
    format!(
        "{} {subject} from {} for {}, up to {} packets/s",
        kind.label(),
        phrase::moment(attack.since, now),
        phrase::span(attack.since, attack.seen),
        attack.packets_per_second
    )
}
