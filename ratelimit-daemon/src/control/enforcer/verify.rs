//! Whether the tables hold what was written: somebody else may have changed them (`bpftool map delete`).

use ratelimit_common::ListEntry;

use super::{Enforcer, Tables};
use crate::{
    control::guards::GuardCounts,
    datapath::{DatapathError, IpFamily},
    prefix::Prefix,
};

/// So many entries are asked for one by one, in less time than it takes the kernel to walk through the buckets of all.
const ASKED_FOR: usize = 4096;

/// What the tables hold, by the kind of the table.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Kind {
    /// What allows, bans and policies say about a prefix.
    Entry,
    /// Limits.
    Policy,
    /// The arrays of classes.
    Class,
    /// The wider prefixes that have limits.
    Aggregate,
    /// What holds for all packets.
    Settings,
}

/// A number for each kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ByKind([u64; Kind::ALL.len()]);

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Entry,
        Self::Policy,
        Self::Class,
        Self::Aggregate,
        Self::Settings,
    ];

    /// Its name in the metrics.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Entry => "entry",
            Self::Policy => "policy",
            Self::Class => "class",
            Self::Aggregate => "aggregate",
            Self::Settings => "settings",
        }
    }
}

impl ByKind {
    /// The number of a kind.
    #[must_use]
    pub const fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// The sum over all kinds.
    #[must_use]
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds those of `other`.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }

    fn set(&mut self, kind: Kind, number: usize) {
        self.0[kind as usize] = number as u64;
    }
}

/// Which tables besides the entries are compared.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extent {
    /// What packets are judged by.
    InUse,
    /// Also what no packet asks for.
    All,
}

impl Enforcer {
    /// How much the tables hold, as they were written.
    #[must_use]
    pub fn written(&self) -> ByKind {
        let mut written = ByKind::default();
        written.set(Kind::Entry, self.entries.len());
        written.set(Kind::Policy, self.held.policies.len());
        written.set(
            Kind::Class,
            self.held.classes.classes().bits().count_ones() as usize,
        );
        let levels = self.held.aggregates.values();
        let levels = levels.flat_map(|family| (0..).map_while(|index| family.get(index)));
        written.set(Kind::Aggregate, levels.count());
        written.set(Kind::Settings, 1);
        written
    }

    /// Compares the tables but for the entries with what was written. From then on what they hold counts as written.
    ///
    /// # Errors
    ///
    /// When a table cannot be read.
    pub fn verify_tables(&mut self, extent: Extent) -> Result<ByKind, DatapathError> {
        let actual = match extent {
            Extent::InUse => self.read_tables_in_use()?,
            Extent::All => self.read_tables()?,
        };
        let mut different = ByKind::default();
        if actual != self.held {
            different.set(Kind::Policy, different_keys(&self.held, &actual));
            different.set(
                Kind::Class,
                usize::from(self.held.classes != actual.classes),
            );
            let aggregates = IpFamily::ALL
                .iter()
                .filter(|family| self.held.aggregates.get(family) != actual.aggregates.get(family));
            different.set(Kind::Aggregate, aggregates.count());
            let settings = [
                self.held.settings != actual.settings,
                self.held.detection_limit != actual.detection_limit,
                self.held.new_sources != actual.new_sources,
            ];
            let settings = settings.iter().filter(|is_other| **is_other);
            different.set(Kind::Settings, settings.count());
            self.held = actual;
        }
        Ok(different)
    }

    /// Compares the tables and all entries with what was written. From then on what they hold counts as written.
    ///
    /// # Errors
    ///
    /// When a table cannot be read.
    pub fn verify(&mut self, extent: Extent) -> Result<ByKind, DatapathError> {
        let mut different = self.verify_tables(extent)?;
        let entries = self.verify_entries()?;
        let words = if entries > 0 {
            0
        } else {
            // An entry that its guard hides is as good as gone.
            self.restore_guards()
        };
        different.set(Kind::Entry, entries + words);
        self.is_in_doubt = false;
        Ok(different)
    }

    fn verify_entries(&mut self) -> Result<usize, DatapathError> {
        if self.entries.len() <= ASKED_FOR && self.are_all_there()? {
            return Ok(0);
        }
        let actual = self.datapath.entries()?;
        let different = self.different_entries(&actual);
        if different > 0 {
            self.take_entries(actual);
        }
        Ok(different)
    }

    /// Whether the lists hold each entry as it was written, and as many as these. The kernel would walk through millions of
    /// buckets to show all of them.
    fn are_all_there(&self) -> Result<bool, DatapathError> {
        for family in IpFamily::ALL {
            if self.datapath.count_entries(family) != Some(self.count(family)) {
                return Ok(false);
            }
        }
        for (prefix, entry) in &self.entries {
            if self.datapath.entry(*prefix)? != Some(*entry) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether a part of the entries, the next `count` of each family, or how many there are, is not as it was written.
    /// One call after the other, all of them are seen.
    ///
    /// # Errors
    ///
    /// When the lists cannot be read.
    pub fn is_suspicious(&mut self, count: usize) -> Result<bool, DatapathError> {
        let mut different = self.is_in_doubt;
        for family in IpFamily::ALL {
            let counted = self.datapath.count_entries(family);
            different |= counted.is_some_and(|counted| counted != self.count(family));
            let visit = &mut |prefix, entry| {
                different |= self.entries.get(&prefix) != Some(&entry)
                    || !GuardCounts::admit(prefix, &*self.datapath);
            };
            let place = &self.walks[family as usize];
            let next = self.datapath.some_entries(family, place, count, visit)?;
            self.walks[family as usize] = next;
        }
        Ok(different)
    }

    /// Whether the kernel says how many entries there are: then a walk through them misses none.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        let mut families = IpFamily::ALL.into_iter();
        families.all(|family| self.datapath.count_entries(family).is_some())
    }

    fn different_entries(&self, actual: &[(Prefix, ListEntry)]) -> usize {
        let (mut known, mut equal) = (0, 0);
        for (prefix, entry) in actual {
            if let Some(written) = self.entries.get(prefix) {
                known += 1;
                equal += usize::from(written == entry);
            }
        }
        let missing = self.entries.len() - known;
        actual.len() - equal + missing
    }
}

fn different_keys(written: &Tables, actual: &Tables) -> usize {
    let (written, actual) = (&written.policies, &actual.policies);
    let changed = written
        .iter()
        .filter(|(index, policy)| actual.get(index) != Some(policy));
    let added = actual.keys().filter(|index| !written.contains_key(index));
    changed.count() + added.count()
}
