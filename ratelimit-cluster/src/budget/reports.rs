//! The received reports, by period.

use std::collections::BTreeMap;

use smart_default::SmartDefault;

use super::{KeyReport, Report};
use crate::name::NodeName;

/// Reports are kept for this many periods around the current one.
pub const PERIODS: u64 = 4;

/// A report, and whether its node sent another one for the same period.
#[derive(Clone, Debug)]
struct Frozen<K> {
    report: Report<K>,
    is_contested: bool,
}

#[derive(Clone, Debug, SmartDefault)]
pub struct Reports<K> {
    periods: BTreeMap<u64, BTreeMap<NodeName, Frozen<K>>>,
}

impl<K: Ord> Reports<K> {
    /// Adds a report. Returns `false` if its node sent a different one for the period before.
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

    /// Returns a node's report for a period and view, if it sent exactly one.
    pub fn of(&self, period: u64, node: &NodeName, view: u64) -> Option<&Report<K>> {
        let frozen = self.periods.get(&period)?.get(node)?;
        (frozen.report.view == view && !frozen.is_contested).then_some(&frozen.report)
    }

    /// Deletes the reports far from the current period.
    pub fn keep_around(&mut self, period: u64) {
        self.periods.retain(|of, _| of.abs_diff(period) <= PERIODS);
    }
}

impl<K: Ord> Report<K> {
    /// Returns the entry of a key.
    pub fn entry(&self, key: &K) -> Option<&KeyReport<K>> {
        let place = self
            .entries
            .binary_search_by(|entry| entry.key.cmp(key))
            .ok()?;
        self.entries.get(place)
    }

    /// Returns whether the sender had the previous report of the member at a position.
    pub fn has_heard(&self, place: usize) -> bool {
        self.unheard
            .iter()
            .all(|unheard| usize::from(*unheard) != place)
    }
}
