//! Checks that the tables contain what was written. Other processes may change them (`bpftool map
//! delete`).

use std::{collections::BTreeMap, ops::Bound};

use ratelimit_common::{Policy, class::Property, layout::POLICIES_MAX};
use ratelimit_core::{compile::Tables, ip_family::IpFamily, prefix::Prefix};
use strum::{IntoStaticStr, VariantArray};

use super::Enforcer;
use crate::{
    control::enforcement::prefix_filters::PrefixFilterCounts,
    datapath::{self, EntryByGeneration},
};

const _: () = assert!(POLICIES_MAX.is_multiple_of(POLICIES_AT_ONCE));

/// Up to this many entries are looked up one by one, which is faster than scanning all buckets.
const ASKED_FOR: usize = 4096;
/// Entries of each family that are compared in a turn if the list is longer.
pub const PART: usize = 8192;
/// Entries compared at once: about half a millisecond.
const AT_ONCE: usize = 512;
/// Elements of the class arrays, and policy indices, compared in a turn: about as long.
const CLASSES_AT_ONCE: u32 = 2048;
const POLICIES_AT_ONCE: u32 = 512;

/// The kinds of tables.
#[derive(Clone, Copy, Debug, Eq, PartialEq, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Kind {
    /// Entries of the lists.
    Entry,
    /// Policies.
    Policy,
    /// Elements of the class arrays.
    Class,
    /// Prefix lengths with limits.
    Aggregate,
    /// Settings for all packets.
    Settings,
}

/// A number for each kind.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct ByKind(pub(crate) [u64; Kind::VARIANTS.len()]);

impl ByKind {
    /// Returns the numbers with the names of their kinds in metrics.
    pub fn labelled(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = Kind::VARIANTS.iter().map(Into::into);
        names.zip(self.0)
    }

    /// Subtracts the numbers of `other`.
    pub fn less(&self, other: &Self) -> Self {
        let mut left = *self;
        for (own, other) in left.0.iter_mut().zip(other.0) {
            *own = own.saturating_sub(other);
        }
        left
    }

    /// Returns the sum over all kinds.
    pub fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds the numbers of `other`.
    pub fn add(&mut self, other: &Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            *own += other;
        }
    }

    fn set(&mut self, kind: Kind, number: usize) {
        self.0[kind as usize] = number as u64;
    }
}

/// The tables besides entries that a comparison covers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Extent {
    /// The named policies, and single values.
    InUse,
    /// Also the class arrays, and all indices of policies.
    All,
}

/// The position at which the comparison of the class arrays and of all policies continues.
#[derive(Clone, Copy, Debug, Default)]
pub struct Spare {
    element: u32,
    policy: u32,
}

/// The progress of a turn, which compares a short list of entries or a part of a long one, and a
/// part of the classes and policies.
#[derive(Clone, Debug, Default)]
pub enum Turn {
    /// Looks up each entry after this one.
    Requested(Option<Prefix>),
    /// Scans this number of further entries of the family.
    Scanning(IpFamily, usize),
    /// A part of the classes and policies remains.
    Spare,
    #[default]
    End,
}

impl Enforcer {
    /// Returns the size of the tables as they were written.
    pub fn written(&self) -> ByKind {
        let mut written = ByKind::default();
        written.set(Kind::Entry, self.entries.len());
        written.set(Kind::Policy, self.held.policies.len());
        written.set(
            Kind::Class,
            self.held.classes.classes().bits().count_ones() as usize,
        );
        let levels = self.held.switched.aggregates.iter();
        let levels = levels.flat_map(|family| (0..).map_while(|index| family.get(index)));
        written.set(Kind::Aggregate, levels.count());
        written.set(Kind::Settings, 1);
        written
    }

    /// Compares the tables other than entries with what was written, and adopts what they contain.
    pub fn verify_tables(&mut self, extent: Extent) -> datapath::Result<ByKind> {
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
            let (held, found) = (&self.held.switched, &actual.switched);
            let aggregates = held.aggregates.iter().zip(&found.aggregates);
            let aggregates = aggregates.filter(|(held, found)| held != found);
            different.set(Kind::Aggregate, aggregates.count());
            let settings = [
                self.held.settings != actual.settings,
                self.held.pass_all_until != actual.pass_all_until,
                self.held.ban_budgets != actual.ban_budgets,
                held.new_sources != found.new_sources,
                held.tunnels != found.tunnels,
                held.challenge != found.challenge,
                held.interfaces != found.interfaces,
            ];
            let settings = settings.iter().filter(|is_other| **is_other);
            different.set(Kind::Settings, settings.count());
            self.held = actual;
        }
        Ok(different)
    }

    /// Compares the tables and all entries with what was written, and adopts what they contain.
    pub fn verify(&mut self, extent: Extent) -> datapath::Result<ByKind> {
        let mut different = self.verify_tables(extent)?;
        let actual = self.datapath.lists.all()?;
        let entries = self.different_entries(&actual);
        let words = if entries > 0 {
            self.take_entries(actual);
            0
        } else {
            // An entry that the prefix-length filter hides is ineffective.
            self.restore_prefix_filters()
        };
        different.set(Kind::Entry, entries + words);
        self.is_in_doubt = false;
        Ok(different)
    }

    /// Returns a turn that has not begun.
    pub fn turn(&self) -> Turn {
        if self.entries.len() <= ASKED_FOR && self.is_counted() {
            Turn::Requested(None)
        } else {
            Turn::Scanning(IpFamily::V4, PART)
        }
    }

    /// Returns whether the entry counts alone show that something changed.
    pub fn is_suspicious(&self) -> bool {
        let is_other = |family: &IpFamily| {
            let counted = self.datapath.lists.count(*family);
            counted.is_some_and(|counted| counted != self.count(*family))
        };
        self.is_in_doubt || IpFamily::ALL.iter().any(is_other)
    }

    /// Compares the next part of a turn with what was written, and returns whether it differs. All
    /// parts together cover everything.
    pub fn compare_some(&mut self, turn: &mut Turn) -> datapath::Result<bool> {
        match turn {
            Turn::Requested(behind) => {
                let (last, is_different) = self.ask_for_some(*behind)?;
                *turn = last.map_or(Turn::Spare, |last| Turn::Requested(Some(last)));
                Ok(is_different)
            }
            Turn::Scanning(family, left) => {
                let (family, left) = (*family, *left);
                let (is_over, is_different) = self.scan_some(family)?;
                *turn = match (is_over || left <= AT_ONCE, family) {
                    (false, _) => Turn::Scanning(family, left - AT_ONCE),
                    (true, IpFamily::V4) => Turn::Scanning(IpFamily::V6, PART),
                    (true, IpFamily::V6) => Turn::Spare,
                };
                Ok(is_different)
            }
            Turn::Spare => {
                *turn = Turn::End;
                Ok(self.compare_classes()? || self.compare_policies()?)
            }
            Turn::End => Ok(false),
        }
    }

    fn compare_classes(&mut self) -> datapath::Result<bool> {
        let element = self.spare.element;
        let written = self.held.classes.entries();
        let end = Property::ENTRIES.min(element + CLASSES_AT_ONCE);
        let actual = self.datapath.policies.some_classes(element..end)?;
        let is_different = written.get(element as usize..end as usize) != Some(&actual);
        self.spare.element = end % Property::ENTRIES;
        Ok(is_different)
    }

    fn compare_policies(&mut self) -> datapath::Result<bool> {
        let first = self.spare.policy;
        let indices = first..first + POLICIES_AT_ONCE;
        self.spare.policy = indices.end % POLICIES_MAX;
        let actual = self.datapath.policies.some(indices.clone())?;
        let in_force = self.held.policies.range(indices.clone());
        let written = in_force.chain(self.held.retired.range(indices));
        let written: BTreeMap<u32, &Policy> = written.map(|it| (*it.0, it.1)).collect();
        let actual = actual.iter().map(|(index, policy)| (*index, policy));
        Ok(!written.into_iter().eq(actual))
    }

    /// Looks up the next entries after `behind`, and returns the last of them, or `None` at the
    /// end.
    fn ask_for_some(&self, behind: Option<Prefix>) -> datapath::Result<(Option<Prefix>, bool)> {
        let behind = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let mut entries = self.entries.range((behind, Bound::Unbounded));
        let (mut last, mut is_different) = (None, false);
        for (prefix, entry) in entries.by_ref().take(AT_ONCE) {
            is_different |= self.datapath.lists.get(*prefix)?
                != Some(EntryByGeneration::both(*entry))
                || !PrefixFilterCounts::admit(*prefix, &self.datapath.lists);
            last = Some(*prefix);
        }
        Ok((last.filter(|_| entries.next().is_some()), is_different))
    }

    /// Continues the scan of a family, and returns whether it is complete.
    fn scan_some(&mut self, family: IpFamily) -> datapath::Result<(bool, bool)> {
        // Avoids a scan of millions of buckets.
        if self.count(family) == 0 && self.datapath.lists.count(family) == Some(0) {
            return Ok((true, false));
        }
        let mut is_different = false;
        let visit = &mut |prefix, entry: EntryByGeneration| {
            let held = self.entries.get(&prefix);
            is_different |= held.copied().map(EntryByGeneration::both) != Some(entry)
                || !PrefixFilterCounts::admit(prefix, &self.datapath.lists);
        };
        let place = &self.scans[family as usize];
        let next = self
            .datapath
            .lists
            .for_some(family, place, AT_ONCE, visit)?;
        let is_over = next.is_front();
        self.scans[family as usize] = next;
        Ok((is_over, is_different))
    }

    /// Returns whether the kernel reports the number of entries. A scan then misses none.
    pub fn is_counted(&self) -> bool {
        let mut families = IpFamily::ALL.into_iter();
        families.all(|family| self.datapath.lists.count(family).is_some())
    }

    fn different_entries(&self, actual: &[(Prefix, EntryByGeneration)]) -> usize {
        let (mut known, mut equal) = (0, 0);
        for (prefix, entry) in actual {
            if let Some(written) = self.entries.get(prefix) {
                known += 1;
                equal += usize::from(EntryByGeneration::both(*written) == *entry);
            }
        }
        let missing = self.entries.len() - known;
        actual.len() - equal + missing
    }
}

fn different_keys(written: &Tables, actual: &Tables) -> usize {
    let tables = [
        (&written.policies, &actual.policies),
        (&written.retired, &actual.retired),
    ];
    let different = tables.map(|(written, actual)| {
        let changed = written
            .iter()
            .filter(|(index, policy)| actual.get(index) != Some(policy));
        let added = actual.keys().filter(|index| !written.contains_key(index));
        changed.count() + added.count()
    });
    different.into_iter().sum()
}
