//! Remembers when this node was busy with keys: a source that came briefly is likely to return.
//!
//! A share follows a source within three periods. A source that moves on earlier would find the
//! share of an idle node everywhere. So a node that such a source has left keeps its equal part for
//! a while.

use std::collections::BTreeMap;

use crate::key::Key;

/// The duration of a visit, in tenths of a period, after which the share has followed.
const FOLLOWED_TENTHS: u128 = 26;

/// The number of periods after which a source is no longer expected.
const AWAY: u64 = 12;

#[derive(Clone, Debug)]
pub struct Visits<K> {
    visits: BTreeMap<K, Visit>,
    /// The last recorded period.
    noted: Option<u64>,
}

/// The last visit of a source to this node.
#[derive(Clone, Copy, Debug)]
struct Visit {
    /// The last period of it.
    last: u64,
    /// The demand in all its periods.
    asked: u64,
    /// The highest demand in one of them.
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
    /// Records the keys that were busy on this node in a period, with their demand. After missed
    /// periods, the demand covers several of them and says nothing about visits.
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

    /// Returns the demand per period that is expected from a key's source when it returns, if it
    /// came briefly and is gone now. With a constant demand, the total divided by the peak is the
    /// number of periods.
    pub fn expected(&self, key: &K) -> u64 {
        let is_short = |visit: &&Visit| {
            u128::from(visit.asked) * 10 < u128::from(visit.peak) * FOLLOWED_TENTHS
        };
        let visit = self.visits.get(key).filter(is_short);
        visit.map_or(0, |visit| visit.peak)
    }
}
