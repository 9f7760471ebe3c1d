//! The reports that a node has, by period.

use std::collections::BTreeMap;

use smart_default::SmartDefault;

use super::{Entry, Report};
use crate::name::NodeName;

/// Reports of this many periods around the current one are kept.
pub const PERIODS: u64 = 4;

/// A report, and whether its node has sent another one of the same period.
#[derive(Clone, Debug)]
struct Frozen<K> {
    report: Report<K>,
    is_contested: bool,
}

/// Reports of some periods.
#[derive(Clone, Debug, SmartDefault)]
pub struct Reports<K> {
    periods: BTreeMap<u64, BTreeMap<NodeName, Frozen<K>>>,
}

impl<K: Ord> Reports<K> {
    /// Takes a report; says whether its node has not sent a different one of the period before.
    pub fn take(&mut self, node: &NodeName, report: Report<K>) -> bool {
        let of_period = self.periods.entry(report.period).or_default();
        let Some(frozen) = of_period.get_mut(node) else {
            of_period.insert(
                node.clone(),
                Frozen {
                    report,
                    is_contested: false,
                },
            );
            return true;
        };
        frozen.is_contested |= frozen.report != report;
        !frozen.is_contested
    }

    /// A node's report of a period with a view, where it sent exactly one.
    pub fn of(&self, period: u64, node: &NodeName, view: u64) -> Option<&Report<K>> {
        let frozen = self.periods.get(&period)?.get(node)?;
        (frozen.report.view == view && !frozen.is_contested).then_some(&frozen.report)
    }

    /// Forgets what is far from the current period.
    pub fn keep_around(&mut self, period: u64) {
        self.periods.retain(|of, _| of.abs_diff(period) <= PERIODS);
    }
}

impl<K: Ord> Report<K> {
    /// What it says of a key.
    pub fn entry(&self, key: &K) -> Option<&Entry<K>> {
        let place = self
            .entries
            .binary_search_by(|entry| entry.key.cmp(key))
            .ok()?;
        self.entries.get(place)
    }

    /// Whether the sender had the report of the period before of the member at a place.
    pub fn has_heard(&self, place: usize) -> bool {
        self.unheard
            .iter()
            .all(|unheard| usize::from(*unheard) != place)
    }
}
