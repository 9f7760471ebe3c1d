//! `rlctl stats`: packets and bytes by interface, family, verdict and reason, now and in the past.

mod history;

use std::{collections::BTreeMap, thread, time::Duration};

use clap::Args;
use jiff::Zoned;
use ratelimit_core::{api::StatsRow, quantity, watched::Watched};
use serde::Serialize;

use crate::{
    arguments::at_least,
    client::{Answer, Client},
    completions,
    failure::Failure,
    phrase,
    report::Report,
    table::Table,
};

/// `stats [--with-zeros]`, `stats --since TIME [--interval TIME]`, `stats --quota SOURCE`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl stats
  rlctl stats --since 7d
  rlctl stats --since 30d --json | jq .attacks
  rlctl stats --since 7d --quota 203.0.113.7

`rlctl top --batch` prints the current rates, one table per second.

With --since it shows the rates of a past period and its attacks. The daemon keeps seconds for an \
hour, minutes for a week and hours for 30 days ([history] retention). Periods without a daemon are \
shown as `-`. With --quota it shows the smallest remaining quota of each limit, sampled once per \
second from when the source was added to [history] watch. For a policy, and for a prefix without \
its own limits, it shows the source with the smallest remaining quota.")]
pub struct StatsArguments {
    /// Also show rows without packets
    #[arg(long, alias = "all")]
    pub with_zeros: bool,
    /// Show recorded rates and attacks of the last 1h, 7d, ... in 24 rows
    #[arg(
        long,
        value_name = "TIME",
        value_parser = quantity::parse_duration,
        conflicts_with = "with_zeros",
    )]
    pub since: Option<Duration>,
    /// Time that each row of --since or --quota covers, at least 1s
    #[arg(
        long,
        alias = "step",
        value_name = "TIME",
        value_parser = |text: &str| at_least(Duration::from_secs(1), text),
    )]
    pub interval: Option<Duration>,
    /// Remaining quota of an address, a prefix, `policy:NAME` or `node` in `[history] watch`, since
    /// an hour ago or since --since
    #[arg(
        long,
        alias = "source",
        value_name = "SOURCE",
        add = completions::watched(),
        conflicts_with = "with_zeros",
    )]
    pub quota: Option<Watched>,
    /// The interval of repeated tables, for the hint.
    #[arg(long, hide = true, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s")]
    pub watch: Option<String>,
    /// The number of repeated tables, for the hint.
    #[arg(long, short = 'n', alias = "count", hide = true, value_name = "N")]
    pub times: Option<String>,
}

impl StatsArguments {
    /// Returns the command that replaced repeated tables, if they are wanted. Kept until version 2.
    fn repeated(&self) -> Option<String> {
        let is_past = self.since.is_some() || self.quota.is_some();
        let interval = self.interval.filter(|_| !is_past).map(quantity::duration);
        let interval = self.watch.clone().or(interval);
        if interval.is_none() && self.times.is_none() {
            return None;
        }
        let flag = |name, value: Option<&String>| {
            value.map_or_else(String::new, |value| format!(" --{name} {value}"))
        };
        Some(format!(
            "rlctl top --batch{}{}",
            flag("interval", interval.as_ref()),
            flag("times", self.times.as_ref())
        ))
    }
}

/// Shows the current counters, or recorded ones.
pub fn run(arguments: &StatsArguments, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    if let Some(command) = arguments.repeated() {
        let error = "`rlctl stats` prints one table";
        return Err(Failure::usage(error).hint(format!("run `{command}`")));
    }
    if arguments.since.is_some() || arguments.quota.is_some() {
        return history::run(arguments, client, now);
    }
    let answer: Answer<Vec<StatsRow>> = client.get("/v1/stats")?;
    let shown = shown(&answer.value, arguments);
    if shown.is_empty() {
        return Ok(Report::new(answer, "").note("no packets counted"));
    }
    let text = table(&shown).to_string();
    Ok(Report::new(answer, text))
}

fn shown<'a>(rows: &'a [StatsRow], arguments: &StatsArguments) -> Vec<&'a StatsRow> {
    let is_shown = |row: &&StatsRow| arguments.with_zeros || row.packets > 0;
    rows.iter().filter(is_shown).collect()
}

/// Returns the difference between two answers. A counter that decreased was reset.
fn since(before: &[StatsRow], after: &[StatsRow]) -> Vec<StatsRow> {
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
