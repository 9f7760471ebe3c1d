//! The result of a simulation as text.

mod attacks;
mod comparison;
mod notes;

use std::time::Duration;

use ratelimit_core::{
    quantity,
    simulation::answer::{Answer, Interval, Refused, RefusedSource},
};

pub use self::notes::notes;
use crate::{
    commands::simulate::SimulateArguments,
    output::{HEAD, printable, styled},
    phrase,
    table::Table,
};

/// All of it, in paragraphs.
pub fn render(file: &str, arguments: &SimulateArguments, answer: &Answer) -> String {
    let mut paragraphs = vec![headline(file, answer)];
    if answer.packets == 0 {
        return paragraphs.remove(0);
    }
    paragraphs.push(verdicts(answer).to_string());
    if !answer.sources.is_empty() {
        paragraphs.push(sources(answer));
    }
    paragraphs.push(timeline(answer));
    paragraphs.extend(answer.attacks.as_deref().map(attacks::found));
    if let Some((old, comparison)) = arguments.compare.as_ref().zip(answer.comparison.as_ref()) {
        let old = printable(&old.display().to_string());
        paragraphs.push(comparison::differences(&old, comparison, answer.packets));
        if !comparison.sources.is_empty() {
            paragraphs.push(comparison::changed_sources(comparison));
        }
    }
    paragraphs.join("\n\n")
}

fn headline(file: &str, answer: &Answer) -> String {
    format!(
        "{}: {} with {} in {}, from {}, up to {} per second",
        styled(HEAD, &printable(file)),
        phrase::packets(answer.packets),
        phrase::size(answer.bytes),
        seconds(answer.time.duration_ns),
        phrase::count(answer.sources_seen, "source", "sources"),
        answer.time.packets_per_second_max,
    )
}

fn verdicts(answer: &Answer) -> Table {
    let mut table = Table::new("ACTION | REASON | >PACKETS | >BYTES | >SHARE");
    let parts = answer.verdicts.iter().map(|row| row.packets);
    let shares = shares(parts, answer.packets).into_iter();
    for (row, share) in answer.verdicts.iter().zip(shares) {
        table.row([
            row.action.to_owned(),
            row.reason.to_owned(),
            row.packets.to_string(),
            row.bytes.to_string(),
            share,
        ]);
    }
    table
}

fn sources(answer: &Answer) -> String {
    let mut table =
        Table::new("SOURCE | >PASSED | >DROPPED | >OBSERVED | FIRST REASON | POLICY | LIMIT");
    for RefusedSource {
        source,
        tally,
        first,
    } in &answer.sources
    {
        let [reason, policy, limit] = why(first.as_ref());
        table.row([
            source.to_string(),
            tally.passed.to_string(),
            tally.dropped.to_string(),
            tally.observed.to_string(),
            reason,
            policy,
            limit,
        ]);
    }
    let shown = answer.sources.len();
    let lose = phrase::count(answer.sources_dropped, "source loses", "sources lose");
    let which = if shown < answer.sources_dropped {
        format!(", the {shown} with the most drops:")
    } else {
        ":".to_owned()
    };
    format!("{lose} packets{which}\n{table}")
}

fn timeline(answer: &Answer) -> String {
    let mut table = Table::new(">FROM | >PACKETS | >PASSED | >DROPPED | >OBSERVED | REFUSED");
    for Interval {
        start_seconds,
        tally,
    } in &answer.timeline.intervals
    {
        table.row([
            quantity::duration(Duration::from_secs_f64(*start_seconds)),
            tally.packets().to_string(),
            tally.passed.to_string(),
            tally.dropped.to_string(),
            tally.observed.to_string(),
            bar(tally.refused(), tally.packets()),
        ]);
    }
    let length = quantity::duration(Duration::from_secs_f64(answer.timeline.interval_seconds));
    format!("Per {length}:\n{table}")
}

fn why(first: Option<&Refused>) -> [String; 3] {
    let Some(first) = first else {
        return Default::default();
    };
    let reason = first.reason.to_owned();
    let [policy, limit] = [&first.policy, &first.limit].map(Clone::clone);
    [
        reason,
        policy.unwrap_or_default(),
        limit.unwrap_or_default(),
    ]
}

/// Parts in percent, to a tenth, by the method of largest remainders: their sum is that of the
/// parts.
fn shares(parts: impl Iterator<Item = u64>, whole: u64) -> Vec<String> {
    let whole = u128::from(whole.max(1));
    let mut tenths: Vec<(u128, u128)> = parts
        .map(|part| u128::from(part) * 1000)
        .map(|part| (part / whole, part % whole))
        .collect();
    let left = tenths.iter().map(|(_, rest)| rest).sum::<u128>() / whole;
    let mut largest: Vec<usize> = (0..tenths.len()).collect();
    largest.sort_by_key(|row| std::cmp::Reverse(tenths[*row].1));
    for row in largest.into_iter().take(usize::try_from(left).unwrap_or(0)) {
        tenths[row].0 += 1;
    }
    let tenths = tenths.iter();
    tenths
        .map(|(tenths, _)| format!("{}.{}%", tenths / 10, tenths % 10))
        .collect()
}

/// A bar of up to twenty marks, at least one unless `part` is 0.
fn bar(part: u64, whole: u64) -> String {
    const MARKS: u128 = 20;
    let marks = (u128::from(part) * MARKS).div_ceil(u128::from(whole.max(1)));
    "#".repeat(usize::try_from(marks).unwrap_or_default())
}

/// Seconds to a thousandth.
fn seconds(nanos: u64) -> String {
    format!("{:.3}s", Duration::from_nanos(nanos).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_to_all() {
        let rows = shares([1, 1, 1].into_iter(), 3);
        assert_eq!(rows, ["33.4%", "33.3%", "33.3%"]);
        let rows = shares([9_999, 1].into_iter(), 10_000);
        assert_eq!(rows, ["100.0%", "0.0%"]);
        assert_eq!(shares([7].into_iter(), 7), ["100.0%"]);
    }
}
