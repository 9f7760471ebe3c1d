//! When this node was busy with keys last: a source that came for a moment and left is likely to come again.
//!
//! A share follows a source within three periods. One that goes on sooner would find on each node what an idle one has. So a node that such
//! a source left keeps its equal part for a while.

use std::collections::BTreeMap;

use crate::key::Key;

/// A share has followed a visit that lasts for so many tenths of a period.
const FOLLOWED_TENTHS: u128 = 26;

/// After so many periods a source is not expected any more.
const AWAY: u64 = 12;

/// Visits of sources.
#[derive(Clone, Debug)]
pub struct Visits<K> {
    visits: BTreeMap<K, Visit>,
    /// The last period that was noted.
    noted: Option<u64>,
}

/// The last time for which a source came to this node.
#[derive(Clone, Copy, Debug)]
struct Visit {
    /// The last period of it.
    last: u64,
    /// What was asked for in all its periods.
    asked: u64,
    /// The most in one of them.
    peak: u64,
}

impl<K> Default for Visits<K> {
    fn default() -> Self {
        Self {
            visits: BTreeMap::new(),
            noted: None,
        }
    }
}

impl<K: Key> Visits<K> {
    /// Notes the keys that this node was busy with in a period, and what was asked for. Where periods were missed, that is of more than one,
    /// and tells of no visit.
    pub fn note(&mut self, period: u64, busy: impl IntoIterator<Item = (K, u64)>) {
        if self.noted.replace(period).map(|noted| noted + 1) != Some(period) {
            self.visits.clear();
            return;
        }
        self.visits
            .retain(|_, visit| period.saturating_sub(visit.last) <= AWAY);
        for (key, asked) in busy {
            let before = self
                .visits
                .get(&key)
                .filter(|visit| visit.last + 1 >= period);
            let visit = Visit {
                last: period,
                asked: before.map_or(0, |visit| visit.asked).saturating_add(asked),
                peak: before.map_or(0, |visit| visit.peak).max(asked),
            };
            self.visits.insert(key, visit);
        }
    }

    /// How much a period the source of a key asks for when it comes again, where it was here for a moment and is not here now. One that
    /// asks for the same all the time has asked for as many peaks as it stayed periods.
    pub fn expected(&self, key: &K) -> u64 {
        let is_short = |visit: &&Visit| {
            u128::from(visit.asked) * 10 < u128::from(visit.peak) * FOLLOWED_TENTHS
        };
        let visit = self.visits.get(key).filter(is_short);
        visit.map_or(0, |visit| visit.peak)
    }
}
