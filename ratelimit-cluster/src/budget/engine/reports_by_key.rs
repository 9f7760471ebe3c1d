//! The reports of the other members for a period, grouped by key, so that each report is read only
//! once.

use std::collections::BTreeMap;

use crate::budget::reports::Reports;
use crate::budget::{KeyReport, Report};
use crate::key::Key;
use crate::name::NodeName;

/// The reports of all other members, of one period and one view.
pub(super) struct Reported<'a, K> {
    entries: BTreeMap<&'a K, Vec<Line<'a, K>>>,
    /// The number of reports, and of those whose sender had this node's previous report.
    pub reporters: Reporters,
    /// The positions of members whose reports are missing.
    pub missing: Vec<usize>,
}

/// A member's report of a key.
pub(super) struct Line<'a, K> {
    pub place: u64,
    pub entry: &'a KeyReport<K>,
    /// Whether it had this node's report of the previous period.
    has_heard: bool,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Reporters {
    pub all: u64,
    pub have_heard: u64,
}

impl<'a, K: Key> Reported<'a, K> {
    pub fn of(
        reports: &'a Reports<K>,
        (period, view): (u64, u64),
        members: &[NodeName],
        me: &NodeName,
    ) -> Self {
        let mut reported = Self {
            entries: BTreeMap::new(),
            reporters: Reporters::default(),
            missing: Vec::new(),
        };
        let my_place = members.binary_search(me).unwrap_or_default();
        for (place, name) in members.iter().enumerate() {
            if name == me {
                continue;
            }
            match reports.of(period, name, view) {
                Some(report) => reported.add(place as u64, report, my_place),
                None => reported.missing.push(place),
            }
        }
        reported
    }

    fn add(&mut self, place: u64, report: &'a Report<K>, my_place: usize) {
        let has_heard = report.has_heard(my_place);
        self.reporters.all += 1;
        self.reporters.have_heard += u64::from(has_heard);
        for entry in &report.entries {
            self.entries.entry(&entry.key).or_default().push(Line {
                place,
                entry,
                has_heard,
            });
        }
    }

    /// Returns the reports of a key, ordered by the positions of the members.
    pub fn lines(&self, key: &K) -> &[Line<'a, K>] {
        self.entries.get(key).map_or(&[], Vec::as_slice)
    }

    /// Returns the reported keys with their reports.
    pub fn keys(&self) -> impl Iterator<Item = (&'a K, &[Line<'a, K>])> {
        self.entries
            .iter()
            .map(|(key, lines)| (*key, lines.as_slice()))
    }

    /// Counts the reports that do not contain a key.
    pub fn silent(&self, key: &K) -> Reporters {
        let lines = self.lines(key);
        let have_heard = lines.iter().filter(|line| line.has_heard).count() as u64;
        Reporters {
            all: self.reporters.all - lines.len() as u64,
            have_heard: self.reporters.have_heard - have_heard,
        }
    }
}
