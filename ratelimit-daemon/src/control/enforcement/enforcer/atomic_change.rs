//! Changes of more than one word are written into the generation that is not in force. Then one
//! write puts that generation in force.
//!
//! Until then, nothing changes in the generation in force: a new entry has the value of the entry
//! around it, and a removed entry has, in the other generation, the value of the future entry
//! around it. If the daemon dies, one of the two generations is complete. The next daemon adopts
//! the one in force, and brings it to the intent in the same way.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_core::compile::Tables;

use super::{
    ByGeneration, Changes, Enforcer, EntryByGeneration, Generation, IpFamily, Limit, ListEntry,
    Prefix, Region,
};
use crate::datapath;

/// Returns whether an added or removed prefix is inside another changed prefix. A packet then
/// matches more than one changing entry.
pub(super) fn is_nested(changes: &Changes, held: &BTreeMap<Prefix, ListEntry>) -> bool {
    let mut sorted: Vec<(Prefix, bool)> = changes
        .iter()
        .map(|(prefix, entry)| (*prefix, entry.is_some()))
        .collect();
    sorted.sort_unstable();
    let mut around: Vec<Prefix> = Vec::new();
    sorted.into_iter().any(|(prefix, stays)| {
        while around.pop_if(|other| !other.covers(prefix)).is_some() {}
        let is_inside = around.last().is_some_and(|other| *other != prefix);
        around.push(prefix);
        is_inside && held.contains_key(&prefix) != stays
    })
}

/// The entries of a change, with their values during it.
struct Crossing {
    /// The values in both generations before the switch.
    meanwhile: Vec<(Prefix, EntryByGeneration)>,
    /// The values after the switch, in both generations.
    present: Vec<(Prefix, EntryByGeneration)>,
    /// The entries to remove after the switch.
    gone: Vec<Prefix>,
}

impl Crossing {
    fn new(changes: Changes, held: &BTreeMap<Prefix, ListEntry>, generation: Generation) -> Self {
        let changes: BTreeMap<Prefix, Option<ListEntry>> = changes.into_iter().collect();
        let lengths = lengths(held.keys().chain(changes.keys()));
        let wider = |prefix: Prefix| {
            let lengths = &lengths[IpFamily::of(prefix.address()) as usize];
            let lengths = lengths.range(..prefix.len()).rev();
            lengths.filter_map(move |length| Prefix::around(prefix.address(), *length))
        };
        let before = |prefix: Prefix| {
            let around = || wider(prefix).find_map(|wider| held.get(&wider));
            let entry = held.get(&prefix).or_else(around);
            entry.copied().unwrap_or_default()
        };
        let at = |prefix: &Prefix| match changes.get(prefix) {
            Some(entry) => *entry,
            None => held.get(prefix).copied(),
        };
        let after = |prefix: Prefix| {
            let around = || wider(prefix).find_map(|wider| at(&wider));
            at(&prefix).or_else(around).unwrap_or_default()
        };
        let mut crossing = Self {
            meanwhile: Vec::new(),
            present: Vec::new(),
            gone: Vec::new(),
        };
        for (prefix, entry) in &changes {
            let held = held.get(prefix);
            if held == entry.as_ref() {
                continue;
            }
            let entries = EntryByGeneration::both(after(*prefix)).with(generation, before(*prefix));
            crossing.meanwhile.push((*prefix, entries));
            match entry {
                Some(entry) => crossing
                    .present
                    .push((*prefix, EntryByGeneration::both(*entry))),
                None => crossing.gone.push(*prefix),
            }
        }
        crossing
    }
}

/// Returns the prefix lengths in use, by family.
fn lengths<'a>(prefixes: impl Iterator<Item = &'a Prefix>) -> [BTreeSet<u8>; 2] {
    let mut seen = [[false; 129]; 2];
    for prefix in prefixes {
        seen[IpFamily::of(prefix.address()) as usize][usize::from(prefix.len())] = true;
    }
    seen.map(|seen| {
        (0..)
            .zip(seen)
            .filter_map(|(length, seen)| seen.then_some(length))
            .collect()
    })
}

impl Enforcer {
    /// Changes entries and the other tables, except policies and classes, through the generation
    /// that is not in force. Copies the usage of moved regions.
    pub(super) fn cross(
        &mut self,
        changes: Changes,
        wanted: Option<&Tables>,
        moved: &[(Region, Limit)],
    ) -> datapath::Result<()> {
        let crossing = Crossing::new(changes, &self.entries, self.generation);
        // If a step before the switch fails, both generations get the same values again.
        let changed = crossing.meanwhile.iter().map(|(prefix, _)| *prefix);
        self.unsettled.extend(changed);
        self.put_all(crossing.meanwhile)?;
        self.write_others(wanted)?;
        let settings = wanted.map_or(self.held.settings, |wanted| wanted.settings);
        self.clear_node_before(settings)?;
        // Elsewhere, a packet may read entries before it reads the generation.
        if cfg!(not(target_arch = "x86_64")) {
            self.datapath.programs.wait_for_packets();
        }
        // As late as possible: usage from here to the switch is lost.
        for (from, to) in moved {
            self.datapath.sources.copy_region(*from, to)?;
        }
        let next = self.generation.other();
        self.datapath.set_settings(settings.in_generation(next))?;
        // From here on the change is in force.
        self.generation = next;
        self.held.settings = settings;
        if let Some(wanted) = wanted {
            self.held.switched.clone_from(&wanted.switched);
        }
        self.datapath.programs.wait_for_packets();
        let answer = self
            .put_all(crossing.present)
            .and_then(|()| self.remove_all_entries(&crossing.gone))
            .and_then(|()| self.write_others(None));
        self.unsettled = Vec::new();
        if let Err(error) = answer {
            self.doubt(&error);
        }
        Ok(())
    }

    /// Writes wider prefixes, the budget for new sources, tunnels, and the rules of challenges and
    /// interfaces into the other generation: the wanted values, or the current ones if `None`. This
    /// overwrites leftovers of a daemon that died.
    fn write_others(&mut self, wanted: Option<&Tables>) -> datapath::Result<()> {
        let other = wanted.unwrap_or(&self.held);
        let switched = ByGeneration::each(|generation| {
            let is_in_force = generation == self.generation;
            let tables = if is_in_force { &self.held } else { other };
            tables.switched.clone()
        });
        self.datapath.set_switched(&switched)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_or_goes_within_a_change_is_nested() {
        let held = [("192.0.2.0/24", 1), ("192.0.2.1", 2), ("10.0.0.0/8", 3)];
        let held: BTreeMap<Prefix, ListEntry> = held
            .into_iter()
            .map(|(at, policy)| (prefix(at), entry(policy)))
            .collect();
        for (changes, expected) in [
            (
                &[("192.0.2.0/24", Some(7)), ("192.0.2.1", Some(8))][..],
                false,
            ),
            (&[("192.0.2.1", None), ("192.0.2.0/24", Some(7))], true),
            (&[("192.0.2.0/24", None), ("192.0.2.9", Some(7))], true),
            (&[("192.0.2.9", Some(7)), ("10.0.0.0/8", None)], false),
            (&[("10.1.0.0/16", Some(7)), ("10.1.2.0/24", Some(8))], true),
        ] {
            let changes = changes
                .iter()
                .map(|(at, policy)| (prefix(at), policy.map(entry)));
            assert_eq!(is_nested(&changes.collect(), &held), expected);
        }
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }

    fn entry(policy: u32) -> ListEntry {
        ListEntry::new(false, None, Some(policy))
    }
}
