//! Compares two configurations on the same packets.

use std::net::IpAddr;

use ratelimit_common::{Verdict, layout::Counter, verdict::VERDICTS};

use super::{
    answer::{ChangedSource, ComparisonAnswer, VerdictName, VerdictPair},
    origin::Masks,
    side::Side,
    sources::{SourceTally, largest},
    tally::Tally,
};

/// Packets by what both said of them: old verdict, then new.
#[derive(Debug)]
pub struct Comparison(Vec<[Counter; VERDICTS]>);

impl Default for Comparison {
    fn default() -> Self {
        Self(vec![[Counter::default(); VERDICTS]; VERDICTS])
    }
}

impl Comparison {
    /// Counts a packet.
    pub fn count(&mut self, old: Verdict, new: Verdict, frame_bytes: u32) {
        let count = &mut self.0[old.index()][new.index()];
        *count = count.with(frame_bytes);
    }

    /// The differences, with the `top` sources to which they matter the most.
    pub fn answer(&self, old: &Side, new: &Side, top: usize, masks: &Masks) -> ComparisonAnswer {
        let newly = |(old, new): &(SourceTally, SourceTally)| {
            old.tally.dropped == 0 && new.tally.dropped > 0
        };
        let no_longer = |(old, new): &(SourceTally, SourceTally)| {
            old.tally.dropped > 0 && new.tally.dropped == 0
        };
        let both = || {
            let sources = new.sources.iter();
            sources.map(|(source, entry)| (*source, (old.sources.get(source), *entry)))
        };
        let changed = both().filter(|(_, (old, new))| old.tally != new.tally);
        let changed = largest(changed, top, |(old, new)| distance(old.tally, new.tally));
        ComparisonAnswer {
            verdicts_old: old.verdicts(),
            timeline_old: old.timeline(),
            verdicts: self.pairs(),
            sources_changed: both()
                .filter(|(_, (old, new))| old.tally != new.tally)
                .count(),
            sources_newly_dropped: both().filter(|(_, pair)| newly(pair)).count(),
            sources_no_longer_dropped: both().filter(|(_, pair)| no_longer(pair)).count(),
            sources: changed
                .into_iter()
                .map(|row| changed_source(row, new, masks))
                .collect(),
        }
    }

    fn pairs(&self) -> Vec<VerdictPair> {
        let pairs = Verdict::all().flat_map(|old| Verdict::all().map(move |new| (old, new)));
        let rows = pairs.map(|(old, new)| {
            let Counter { packets, bytes } = self.0[old.index()][new.index()];
            VerdictPair {
                old: name(old),
                new: name(new),
                packets,
                bytes,
            }
        });
        rows.filter(|row| row.packets > 0).collect()
    }
}

fn changed_source(
    (source, (before, after)): (IpAddr, (SourceTally, SourceTally)),
    new: &Side,
    masks: &Masks,
) -> ChangedSource {
    ChangedSource {
        source: masks.prefix(source),
        old: before.tally,
        new: after.tally,
        first: new.refused(&after),
    }
}

/// The minimum number of packets with another verdict.
fn distance(old: Tally, new: Tally) -> u64 {
    old.dropped
        .abs_diff(new.dropped)
        .max(old.observed.abs_diff(new.observed))
}

fn name(verdict: Verdict) -> VerdictName {
    VerdictName {
        action: verdict.action(),
        reason: verdict.reason(),
    }
}
