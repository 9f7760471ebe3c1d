//! A list that is intended: its prefixes in their order, of which a million are 32 MB.

use std::{cmp::Ordering, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use ratelimit_common::Instant;

use super::FOREVER;
use crate::{
    lists::{Action, Coverage, ReasonId, Reasons},
    prefix::Prefix,
};

/// Ends that are no further apart are the same: they were reported in seconds, or on two clocks.
const SAME_END_NANOS: u64 = 1_000_000_000;

/// A list.
#[derive(Clone, Debug, PartialEq)]
pub struct List {
    /// The action on packets of its sources.
    pub action: Action,
    /// The file that it is read from; `None` for one that was imported.
    pub file: Option<PathBuf>,
    /// The time of the last change.
    pub since: Timestamp,
    /// The user or program that added it.
    pub author: Arc<str>,
    /// The reasons of its entries.
    pub reasons: Reasons,
    /// The entries of which connected networks of this host were left out, as they were written.
    pub cut: Vec<Prefix>,
    entries: Vec<ListEntry>,
    soonest_end: Instant,
}

/// An entry of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ListEntry {
    /// The prefix.
    pub prefix: Prefix,
    /// The expiry, on the clock of the kernel.
    pub until: Instant,
    /// The reason.
    pub reason: ReasonId,
}

/// The difference between a list and its replacement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Entries that were not there.
    pub added: usize,
    /// Entries that are gone.
    pub removed: usize,
    /// Entries with another end or reason.
    pub updated: usize,
    /// Entries that stay as they are.
    pub kept: usize,
    /// The prefixes whose rules changed, in order.
    pub touched: Vec<Prefix>,
}

impl List {
    /// A list without entries.
    pub fn new(action: Action, file: Option<PathBuf>, since: Timestamp, author: Arc<str>) -> Self {
        Self {
            action,
            file,
            since,
            author,
            reasons: Reasons::default(),
            cut: Vec::new(),
            entries: Vec::new(),
            soonest_end: FOREVER,
        }
    }

    /// The list with these entries, each prefix once and in their order.
    pub fn with_entries(mut self, entries: Vec<ListEntry>, reasons: Reasons) -> Self {
        let ends = entries.iter().map(|entry| entry.until);
        self.soonest_end = ends.min().unwrap_or(FOREVER);
        self.entries = entries;
        self.reasons = reasons;
        self
    }

    /// The list whose entries end at other points on the kernel's clock.
    pub fn with_ends(&self, moved: impl Fn(Instant) -> Instant) -> Self {
        let mut list = self.clone();
        for entry in &mut list.entries {
            entry.until = moved(entry.until);
        }
        list.soonest_end = moved(list.soonest_end);
        list
    }

    /// The entries, in the order of their prefixes.
    pub fn entries(&self) -> &[ListEntry] {
        &self.entries
    }

    /// The end of the entry that ends first.
    pub fn soonest_end(&self) -> Instant {
        self.soonest_end
    }

    /// Returns the part of the address space that its entries cover.
    pub fn coverage(&self) -> Coverage {
        Coverage::of(self.entries.iter().map(|entry| entry.prefix))
    }

    /// The entry of a prefix by its own name.
    pub fn get(&self, prefix: Prefix) -> Option<&ListEntry> {
        let index = self
            .entries
            .binary_search_by_key(&prefix, |entry| entry.prefix);
        self.entries.get(index.ok()?)
    }

    /// The entries around a prefix, itself included, the widest first.
    pub fn around(&self, prefix: Prefix, now: Instant) -> impl Iterator<Item = &ListEntry> {
        let entries = prefix.supernets().filter_map(|outer| self.get(outer));
        entries.filter(move |entry| entry.until > now)
    }

    /// The number of entries that have not expired at `now`.
    pub fn len_at(&self, now: Instant) -> usize {
        if self.soonest_end() > now {
            return self.entries.len();
        }
        let lasting = self.entries.iter().filter(|entry| entry.until > now);
        lasting.count()
    }

    /// The list without the entries that have ended at `now`.
    pub fn without_ended(&self, now: Instant) -> Self {
        let left = self.entries.iter().filter(|entry| entry.until > now);
        let left = left.copied().collect();
        self.clone().with_entries(left, self.reasons.clone())
    }

    /// Returns the difference between `before` and `after`. Expiries of `after` that are equivalent
    /// to those of `before` are made equal.
    pub fn replace(before: Option<&Self>, after: Option<&mut Self>) -> Difference {
        let mut difference = Difference::default();
        let other_action =
            before.map(|list| list.action) != after.as_deref().map(|list| list.action);
        let (mut old, none) = (
            before.map_or(&[][..], |list| &list.entries),
            &Reasons::default(),
        );
        let old_reasons = before.map_or(none, |list| &list.reasons);
        let empty = (&mut Vec::new(), none);
        let (new, new_reasons) = after.map_or(empty, |list| (&mut list.entries, &list.reasons));
        for entry in new.iter_mut() {
            while let Some((gone, rest)) = old
                .split_first()
                .filter(|(gone, _)| gone.prefix < entry.prefix)
            {
                difference.take_away(gone);
                old = rest;
            }
            let same = old.first().map(|first| first.prefix.cmp(&entry.prefix));
            if same != Some(Ordering::Equal) {
                difference.added += 1;
                difference.touched.push(entry.prefix);
                continue;
            }
            let was = old[0];
            old = &old[1..];
            if was.until.as_nanos().abs_diff(entry.until.as_nanos()) <= SAME_END_NANOS {
                entry.until = was.until;
            }
            let same_end = was.until == entry.until;
            if same_end && old_reasons.get(was.reason) == new_reasons.get(entry.reason) {
                difference.kept += 1;
            } else {
                difference.updated += 1;
            }
            if !same_end || other_action {
                difference.touched.push(entry.prefix);
            }
        }
        for gone in old {
            difference.take_away(gone);
        }
        difference
    }
}

impl Difference {
    /// Whether nothing is different.
    pub fn is_empty(&self) -> bool {
        self.added + self.removed + self.updated == 0 && self.touched.is_empty()
    }

    fn take_away(&mut self, entry: &ListEntry) {
        self.removed += 1;
        self.touched.push(entry.prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replacement_is_told_by_what_is_different() {
        check(
            "10.0.0.1 10.0.0.3",
            "10.0.0.2 10.0.0.3",
            (1, 1, 0, 1),
            "10.0.0.1 10.0.0.2",
        );
        check("", "10.0.0.1 ::1", (2, 0, 0, 0), "10.0.0.1 ::1");
        check("10.0.0.1 ::1", "", (0, 2, 0, 0), "10.0.0.1 ::1");
        check("10.0.0.1", "10.0.0.1", (0, 0, 0, 1), "");
    }

    #[test]
    fn another_end_is_a_difference_and_a_second_is_not() {
        check("10.0.0.1@100", "10.0.0.1@102", (0, 0, 1, 0), "10.0.0.1");
        check("10.0.0.1@100", "10.0.0.1@101", (0, 0, 0, 1), "");
        check("10.0.0.1@100", "10.0.0.1", (0, 0, 1, 0), "10.0.0.1");
    }

    #[test]
    fn the_entries_around_an_address_are_found() {
        let list = list("10.0.0.0/8 10.1.0.0/16 10.1.2.3");
        let around: Vec<String> = list
            .around(prefix("10.1.2.3"), at(0))
            .map(|entry| entry.prefix.to_string())
            .collect();
        assert_eq!(around, ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"]);
        assert_eq!(list.around(prefix("11.0.0.1"), at(0)).count(), 0);
    }

    #[test]
    fn what_ended_is_left_out() {
        let list = list("10.0.0.1@5 10.0.0.2@9 10.0.0.3");
        assert_eq!(list.soonest_end(), at(5));
        let left = list.without_ended(at(5));
        assert_eq!(left.entries().len(), 2);
        assert_eq!(left.soonest_end(), at(9));
    }

    fn check(
        before: &str,
        after: &str,
        (added, removed, updated, kept): (usize, usize, usize, usize),
        touched: &str,
    ) {
        let (before, mut after) = (list(before), list(after));
        let difference = List::replace(Some(&before), Some(&mut after));
        let names: Vec<String> = difference.touched.iter().map(ToString::to_string).collect();
        assert_eq!(names.join(" "), touched);
        let Difference {
            added: a,
            removed: r,
            updated: u,
            kept: k,
            ..
        } = difference;
        assert_eq!((a, r, u, k), (added, removed, updated, kept));
    }

    /// `10.0.0.1`, or `10.0.0.1@5` for one that ends at 5 seconds.
    fn list(text: &str) -> List {
        let entries = text.split_whitespace().map(|text| {
            let (name, until) = text.split_once('@').unwrap_or((text, ""));
            ListEntry {
                prefix: prefix(name),
                until: until.parse().map_or(FOREVER, at),
                reason: ReasonId::NONE,
            }
        });
        let list = List::new(Action::Ban, None, Timestamp::UNIX_EPOCH, "root".into());
        list.with_entries(entries.collect(), Reasons::default())
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn at(seconds: u64) -> Instant {
        Instant::from_nanos(seconds * 1_000_000_000)
    }
}
