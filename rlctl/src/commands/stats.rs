//! `rlctl stats`: packets and bytes by interface, family, verdict and reason, now and in the past.

mod history;

use std::{collections::BTreeMap, thread, time::Duration};

use jiff::Zoned;
use ratelimit_core::api::StatsRow;
use serde::Serialize;
use serde_json::Value;

use crate::{
    arguments::StatsArguments,
    client::{Answer, Client},
    failure::Failure,
    output::Output,
    phrase,
    report::Report,
    table::Table,
};

/// Shows the current counters, or recorded ones.
pub fn run(
    arguments: &StatsArguments,
    client: &Client,
    now: &Zoned,
    output: &Output,
) -> Result<Report, Failure> {
    if arguments.since.is_some() || arguments.quota.is_some() {
        return history::run(arguments, client, now);
    }
    if let Some(every) = arguments.interval {
        return watch(arguments, every, client, output);
    }
    let answer: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    let shown = shown(&answer.value, arguments);
    if shown.is_empty() {
        return Ok(Report::new(answer, "").note("no packets counted"));
    }
    let text = table(&shown).to_string();
    Ok(Report::new(answer, text))
}

/// Shows what comes in each period.
fn watch(
    arguments: &StatsArguments,
    every: Duration,
    client: &Client,
    output: &Output,
) -> Result<Report, Failure> {
    let mut before: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    let mut times = 0;
    while arguments.times.is_none_or(|count| times < count) {
        thread::sleep(every);
        let after: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
        let came = since(&before.value, &after.value);
        let shown = shown(&came, arguments);
        let json = serde_json::to_value(&shown).unwrap_or(Value::Null);
        let text = || match &shown[..] {
            [] => "no packets".to_owned(),
            rows => table(rows).to_string(),
        };
        if !output.line(&json, text)? {
            break;
        }
        before = after;
        times += 1;
    }
    Ok(Report::printed())
}

fn shown<'a>(rows: &'a [StatsRow], arguments: &StatsArguments) -> Vec<&'a StatsRow> {
    let is_shown = |row: &&StatsRow| arguments.with_zeros || row.packets > 0;
    rows.iter().filter(is_shown).collect()
}

/// Returns the difference between two answers. A counter that decreased was reset.
pub fn since(before: &[StatsRow], after: &[StatsRow]) -> Vec<StatsRow> {
    let rows = after.iter().map(|row| {
        let old = before.iter().find(|old| key(old) == key(row));
        let (packets, bytes) = old.map_or((0, 0), |old| (old.packets, old.bytes));
        StatsRow {
            packets: row.packets.checked_sub(packets).unwrap_or(row.packets),
            bytes: row.bytes.checked_sub(bytes).unwrap_or(row.bytes),
            ..row.clone()
        }
    });
    rows.collect()
}

/// The labels of a row.
fn key(row: &StatsRow) -> [&String; 4] {
    [&row.interface, &row.family, &row.action, &row.reason]
}

/// Packets of one verdict.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerdictRate {
    /// `pass`, `drop` or `observe`.
    pub action: String,
    /// The reason, as in the metrics.
    pub reason: String,
    pub packets_per_second: f64,
    pub bytes_per_second: f64,
}

/// Measures the rate of each verdict.
pub fn rates(time: Duration, client: &Client) -> Result<Vec<VerdictRate>, Failure> {
    let before: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    thread::sleep(time);
    let after: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    Ok(verdicts(&before.value, &after.value, time.as_secs_f64()))
}

/// Returns the rate of each verdict, highest first.
pub fn verdicts(before: &[StatsRow], after: &[StatsRow], seconds: f64) -> Vec<VerdictRate> {
    let mut sums: BTreeMap<(&str, &str), (u64, u64)> = BTreeMap::new();
    let came = since(before, after);
    for row in came.iter().filter(|row| row.packets > 0) {
        let sum = sums.entry((&row.action, &row.reason)).or_default();
        sum.0 += row.packets;
        sum.1 += row.bytes;
    }
    let rates = sums
        .into_iter()
        .map(|((action, reason), (packets, bytes))| VerdictRate {
            action: action.to_owned(),
            reason: reason.to_owned(),
            packets_per_second: per_second(packets, seconds),
            bytes_per_second: per_second(bytes, seconds),
        });
    let mut rates: Vec<VerdictRate> = rates.collect();
    rates.sort_by(|left, right| {
        let [left, right] = [left, right].map(|it| it.packets_per_second);
        right.total_cmp(&left)
    });
    rates
}

/// A rate per second.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
pub fn per_second(count: u64, seconds: f64) -> f64 {
    count as f64 / seconds
}

/// A line for each verdict.
pub fn rate_table(rates: &[VerdictRate]) -> Table {
    let mut table = Table::new("ACTION | REASON | >PACKETS/S | >BYTES/S");
    for rate in rates {
        table.row([
            rate.action.clone(),
            rate.reason.clone(),
            phrase::rate(rate.packets_per_second),
            phrase::rate(rate.bytes_per_second),
        ]);
    }
    table
}

fn table(rows: &[&StatsRow]) -> Table {
    let mut table = Table::new("INTERFACE | FAMILY | ACTION | REASON | >PACKETS | >BYTES");
    for row in rows {
        table.row([
            row.interface.clone(),
            row.family.clone(),
            row.action.clone(),
            row.reason.clone(),
            row.packets.to_string(),
            row.bytes.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_is_the_difference_and_a_counter_that_began_again_counts_whole() {
        let row = |reason: &str, packets| StatsRow {
            interface: "eth0".to_owned(),
            family: "ipv4".to_owned(),
            action: "drop".to_owned(),
            reason: reason.to_owned(),
            packets,
            bytes: 60 * packets,
        };
        let before = [row("limited", 10), row("banned", 9)];
        let after = [row("limited", 17), row("banned", 2), row("truncated", 1)];
        let expected = [row("limited", 7), row("banned", 2), row("truncated", 1)];
        assert_eq!(since(&before, &after), expected);
    }
}
