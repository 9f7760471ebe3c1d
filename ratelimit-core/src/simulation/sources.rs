//! Results by source.

use std::{collections::HashMap, net::IpAddr};

use ratelimit_common::{DropReason, Verdict};

use super::tally::Tally;

/// Every source of a capture.
#[derive(Debug, Default)]
pub struct Sources(HashMap<IpAddr, SourceTally>);

/// A source.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceTally {
    pub tally: Tally,
    pub first: Option<FirstRefusal>,
}

/// The first refusal of a packet of a source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FirstRefusal {
    pub reason: DropReason,
    /// The address that the packet came from: the policy is that of the address.
    pub address: IpAddr,
    /// The index of the limit in its policy, where a limit refused.
    pub limit: Option<u8>,
    /// The scope of the policy, where it is one of sources or of prefixes around them.
    pub scope: Option<u32>,
}

impl Sources {
    /// Counts a packet. `first` says why, and is asked once a source.
    pub fn count(
        &mut self,
        source: IpAddr,
        verdict: Verdict,
        first: impl FnOnce(DropReason) -> FirstRefusal,
    ) {
        let entry = self.0.entry(source).or_default();
        entry.tally.count(verdict);
        if let Verdict::Drop(reason) | Verdict::Observe(reason) = verdict {
            entry.first.get_or_insert_with(|| first(reason));
        }
    }

    /// Returns the number of sources.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the number of sources that lost a packet, or would have.
    pub fn count_refused(&self) -> usize {
        self.0
            .values()
            .filter(|entry| entry.first.is_some())
            .count()
    }

    /// A source.
    pub fn get(&self, source: &IpAddr) -> SourceTally {
        self.0.get(source).copied().unwrap_or_default()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&IpAddr, &SourceTally)> {
        self.0.iter()
    }
}

/// The first `count` of `rows`, the ones with the largest weight, and equal ones by address.
pub fn largest<T>(
    rows: impl Iterator<Item = (IpAddr, T)>,
    count: usize,
    weight: impl Fn(&T) -> u64,
) -> Vec<(IpAddr, T)> {
    let mut rows: Vec<_> = rows.collect();
    rows.sort_by_key(|(source, row)| (std::cmp::Reverse(weight(row)), *source));
    rows.truncate(count);
    rows
}
