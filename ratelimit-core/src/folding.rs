//! Folding: a prefix is banned as a whole while a share of its sources is banned.
//!
//! A fold is a ban with the origin `folded`, and the bans inside it stay. A prefix is judged when a
//! ban inside it is added or prolonged, not when time passes, so an unban keeps its effect without
//! being remembered.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::Range,
    time::Duration,
};

use ratelimit_common::Instant;

use crate::{
    intent::{Edit, EntryRow, Intent, renewed},
    ip_family::IpFamily,
    origin::Origin,
    prefix::Prefix,
};

/// fail2ban and `CrowdSec` also remove bans that expire, about when they do. A ban that is removed
/// so shortly before its end has expired.
const EXPIRES: Duration = Duration::from_secs(2);

/// When a prefix is folded.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fold {
    /// The share of its sources that must be banned, in percent.
    pub percent: u8,
    /// The lengths of folded prefixes, IPv4 and IPv6.
    pub prefixes: [u8; 2],
    /// The lengths of sources. Prefixes of a family are folded if these are longer.
    pub sources: [u8; 2],
}

impl Fold {
    /// The prefix to fold around another one, or that one itself; `None` if that is wider.
    pub fn around(&self, prefix: Prefix) -> Option<Prefix> {
        let family = IpFamily::of(prefix.address()) as usize;
        let length = self.prefixes[family];
        let may = length <= prefix.len() && length < self.sources[family];
        may.then(|| Prefix::around(prefix.address(), length))?
    }

    /// Returns until when enough sources of `wide` are banned, given the bans inside it with their
    /// ends; `None` if too few are.
    pub fn until(
        &self,
        wide: Prefix,
        bans: impl Iterator<Item = (Prefix, Instant)>,
    ) -> Option<Instant> {
        let source = self.sources[IpFamily::of(wide.address()) as usize];
        // At most 2^80 sources: no folded prefix is wider than /48.
        let all = 1u128 << source.checked_sub(wide.len())?;
        let needed = (all * u128::from(self.percent)).div_ceil(100);
        let mut bans: Vec<_> = bans
            .map(|(prefix, until)| (until, numbers(prefix, source)))
            .collect();
        bans.sort_unstable_by_key(|(until, _)| Reverse(*until));
        // Disjoint ranges: two prefixes are disjoint, or one contains the other.
        let mut banned: BTreeMap<u128, u128> = BTreeMap::new();
        let mut count = 0;
        for (until, Range { start, end }) in bans {
            let before = banned.range(..=start).next_back();
            if before.is_some_and(|(_, last)| *last >= end) {
                continue;
            }
            while let Some((first, last)) = banned.range(start..end).next() {
                let (first, last) = (*first, *last);
                count -= last - first;
                banned.remove(&first);
            }
            banned.insert(start, end);
            count += end - start;
            if count >= needed {
                return Some(until);
            }
        }
        None
    }
}

/// The numbers of the sources that a prefix covers, or of the one that it is in.
fn numbers(prefix: Prefix, source: u8) -> Range<u128> {
    let (address, bits) = match prefix.address() {
        IpAddr::V4(address) => (address.to_bits().into(), 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    };
    let first = address >> (bits - source);
    first..first + (1 << source.saturating_sub(prefix.len()))
}

/// The bans inside a prefix that a fold of it counts.
pub fn members(intent: &Intent, wide: Prefix) -> impl Iterator<Item = (Prefix, &EntryRow)> {
    let bans = intent.bans().range((wide, Origin::FIRST)..);
    bans.take_while(move |((prefix, _), _)| wide.covers(*prefix))
        .filter(move |((prefix, origin), _)| *prefix != wide && is_counted(origin))
        .map(|((prefix, _), row)| (*prefix, row))
}

fn is_counted(origin: &Origin) -> bool {
    !matches!(origin, Origin::List(_) | Origin::Folded)
}

/// The folds that the configuration has no longer.
pub fn retired(intent: &Intent) -> Vec<Edit> {
    let fold = intent.config.fold;
    let bans = intent.bans().keys();
    let gone = bans.filter(|(prefix, origin)| {
        *origin == Origin::Folded && fold.and_then(|fold| fold.around(*prefix)) != Some(*prefix)
    });
    gone.map(|(prefix, _)| unfold(*prefix)).collect()
}

/// The end of a fold.
pub fn unfold(wide: Prefix) -> Edit {
    Edit::Ban(wide, Origin::Folded, None)
}

/// Prefixes in which a change added or ended bans.
#[derive(Debug, Default)]
pub struct Touched {
    /// Whether the settings changed, so that all prefixes are judged again.
    all: bool,
    grown: BTreeSet<Prefix>,
    shrunk: BTreeSet<Prefix>,
}

impl Touched {
    /// Compares the intent with the edits that lead back to the one before the change.
    pub fn by(reverse: &[Edit], intent: &Intent, now: Instant) -> Self {
        let soon = renewed::later(now, EXPIRES);
        let mut touched = Self::default();
        let fold = intent.config.fold;
        for edit in reverse {
            match edit {
                Edit::Ban(prefix, origin, before) => {
                    if let Some(wide) = fold.and_then(|fold| fold.around(*prefix)) {
                        let before = before.as_ref().map(|row| row.until);
                        touched.note(wide, (*prefix, origin), before, intent, soon);
                    }
                }
                Edit::Config(before) => touched.all |= before.fold != fold,
                Edit::Allow(..)
                | Edit::List(..)
                | Edit::Limits(..)
                | Edit::Offence(..)
                | Edit::Limited(..)
                | Edit::PassAll(_) => {}
            }
        }
        touched
    }

    fn note(
        &mut self,
        wide: Prefix,
        (prefix, origin): (Prefix, &Origin),
        before: Option<Instant>,
        intent: &Intent,
        soon: Instant,
    ) {
        let is_fold = *origin == Origin::Folded;
        if !is_fold && (prefix == wide || !is_counted(origin)) {
            return;
        }
        // Most changes add or end many bans of a prefix, which is looked up once.
        let known = if before.is_none() {
            &self.grown
        } else {
            &self.shrunk
        };
        if known.contains(&wide) {
            return;
        }
        let bans = intent.bans_of(prefix);
        let counted = bans.filter(|(it, _)| *it == origin || !is_fold && is_counted(it));
        let after = intent.ban_of(prefix, origin).map(|row| row.until);
        if after > before && !is_fold {
            self.grown.insert(wide);
        } else if before > Some(soon) && before > counted.map(|(_, row)| row.until).max() {
            self.shrunk.insert(wide);
        }
    }

    /// Lifts the folds around addresses that are no longer banned themselves, and returns the edits
    /// that undo it.
    pub fn lift(&self, intent: &mut Intent) -> Vec<Edit> {
        let is_folded = |wide: &&Prefix| intent.ban_of(**wide, &Origin::Folded).is_some();
        let shrunk = self.shrunk.iter().filter(is_folded);
        let retired = self.all.then(|| retired(intent));
        let mut edits: Vec<Edit> = shrunk
            .map(|wide| unfold(*wide))
            .chain(retired.into_iter().flatten())
            .collect();
        intent.edit_all(&mut edits);
        edits
    }
}

/// Prefixes that are to be judged.
#[derive(Debug, Default)]
pub struct Unjudged {
    /// Whether all are.
    pub all: bool,
    prefixes: BTreeSet<Prefix>,
}

impl Unjudged {
    /// Takes note of a change. A prefix is not folded again because of bans before an unban in it.
    pub fn note(&mut self, touched: Touched) {
        self.all |= touched.all;
        self.prefixes.extend(touched.grown);
        for wide in touched.shrunk {
            self.prefixes.remove(&wide);
        }
    }

    /// The prefixes, in their order.
    pub fn prefixes(&self, fold: Fold, intent: &Intent) -> BTreeSet<Prefix> {
        if !self.all {
            return self.prefixes.clone();
        }
        let bans = intent.bans().keys();
        bans.filter_map(|(prefix, _)| fold.around(*prefix))
            .collect()
    }
}

#[cfg(test)]
mod tests;
