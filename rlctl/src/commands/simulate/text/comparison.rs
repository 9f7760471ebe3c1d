//! Formats the differences between two configurations.

use ratelimit_core::simulation::answer::{ChangedSource, ComparisonAnswer, VerdictName};

use super::{shares, why};
use crate::{phrase, table::Table};

/// Formats the verdicts of both configurations.
pub fn differences(old: &str, comparison: &ComparisonAnswer, packets: u64) -> String {
    let mut table = Table::new("BEFORE | AFTER | >PACKETS | >BYTES | >SHARE");
    let parts = comparison.verdicts.iter().map(|pair| pair.packets);
    let shares = shares(parts, packets).into_iter();
    for (pair, share) in comparison.verdicts.iter().zip(shares) {
        table.row([
            verdict(pair.old),
            verdict(pair.new),
            pair.packets.to_string(),
            pair.bytes.to_string(),
            share,
        ]);
    }
    format!("Compared with {old}:\n{table}")
}

/// The sources to which the difference matters the most.
pub fn changed_sources(comparison: &ComparisonAnswer) -> String {
    let mut table = Table::new(
        "SOURCE | >DROPPED BEFORE | >AFTER | >OBSERVED BEFORE | >AFTER | FIRST REASON | POLICY | \
         LIMIT",
    );
    for ChangedSource {
        source,
        old,
        new,
        first,
    } in &comparison.sources
    {
        let [reason, policy, limit] = why(first.as_ref());
        table.row([
            source.to_string(),
            old.dropped.to_string(),
            new.dropped.to_string(),
            old.observed.to_string(),
            new.observed.to_string(),
            reason,
            policy,
            limit,
        ]);
    }
    format!(
        "{}: {} newly dropped, {} no longer dropped. Largest changes:\n{table}",
        phrase::count(
            comparison.sources_changed,
            "source differs",
            "sources differ"
        ),
        comparison.sources_newly_dropped,
        comparison.sources_no_longer_dropped,
    )
}

fn verdict(verdict: VerdictName) -> String {
    format!("{} {}", verdict.action, verdict.reason)
}
