//! Brings the datapath from what it holds to what it is to hold, and back when that fails.

use std::collections::BTreeMap;

use ratelimit_common::{ListEntry, Policy, Settings};

use super::guards::GuardCounts;
use crate::{
    datapath::{Datapath, DatapathError, IpFamily},
    prefix::Prefix,
};

/// The owner of the datapath. It knows what the tables hold without asking, so a change costs only what is different.
pub struct Enforcer {
    datapath: Box<dyn Datapath>,
    entries: BTreeMap<Prefix, ListEntry>,
    policies: BTreeMap<u32, Policy>,
    settings: Settings,
    guards: BTreeMap<IpFamily, GuardCounts>,
}

/// Entries to be: with a value, or gone.
pub type Changes = Vec<(Prefix, Option<ListEntry>)>;

impl Enforcer {
    /// Takes the datapath over as it is.
    ///
    /// # Errors
    ///
    /// When the tables cannot be read.
    pub fn adopt(datapath: Box<dyn Datapath>) -> Result<Self, DatapathError> {
        let settings = datapath.settings()?;
        let guards = IpFamily::ALL
            .map(|family| (family, GuardCounts::default()))
            .into();
        let (entries, policies) = (BTreeMap::new(), BTreeMap::new());
        let mut enforcer = Self {
            datapath,
            entries,
            policies,
            settings,
            guards,
        };
        enforcer.reread()?;
        Ok(enforcer)
    }

    /// Reads the tables again, in case somebody else changed them.
    ///
    /// # Errors
    ///
    /// When they cannot be read.
    pub fn reread(&mut self) -> Result<(), DatapathError> {
        self.entries = self.datapath.entries()?.into_iter().collect();
        self.policies = self.datapath.policies()?.into_iter().collect();
        self.settings = self.datapath.settings()?;
        self.guards = IpFamily::ALL
            .map(|family| (family, GuardCounts::default()))
            .into();
        for prefix in self.entries.keys() {
            self.guards.entry(family(*prefix)).or_default().add(*prefix);
        }
        Ok(())
    }

    /// Changes entries, settings and, where they are given, all policies. A packet meanwhile sees for its source either what
    /// was or what will be: new policies come before the entries that name them, new entries before the old ones go. The
    /// precise clock comes before the policies that need it, and the coarse one after they are gone.
    ///
    /// # Errors
    ///
    /// The first table that refuses; then everything is as it was.
    pub fn apply(
        &mut self,
        policies: Option<&BTreeMap<u32, Policy>>,
        changes: Changes,
        settings: Settings,
    ) -> Result<(), DatapathError> {
        let mut undo = Vec::new();
        let answer = self.try_apply(policies, changes, settings, &mut undo);
        if answer.is_err() {
            self.undo(undo);
        }
        answer
    }

    /// The changes from the entries that are held to `wanted`, which are all that shall be.
    #[must_use]
    pub fn difference(&self, wanted: &BTreeMap<Prefix, ListEntry>) -> Changes {
        let gone = self
            .entries
            .keys()
            .filter(|prefix| !wanted.contains_key(prefix));
        let gone = gone.map(|prefix| (*prefix, None));
        let different = wanted
            .iter()
            .filter(|(prefix, entry)| self.entries.get(prefix) != Some(entry));
        different
            .map(|(prefix, entry)| (*prefix, Some(*entry)))
            .chain(gone)
            .collect()
    }

    /// What the datapath holds for a prefix.
    #[must_use]
    pub fn entry(&self, prefix: Prefix) -> Option<ListEntry> {
        self.entries.get(&prefix).copied()
    }

    /// How many entries it holds, single addresses and wider prefixes of a family.
    #[must_use]
    pub fn count_entries(&self, wanted: IpFamily) -> (u64, u64) {
        let of_family = self
            .entries
            .keys()
            .filter(|prefix| family(**prefix) == wanted);
        of_family.fold((0, 0), |(addresses, prefixes), prefix| {
            if prefix.is_address() {
                (addresses + 1, prefixes)
            } else {
                (addresses, prefixes + 1)
            }
        })
    }

    /// The policies that it holds, by index.
    #[must_use]
    pub fn policies(&self) -> &BTreeMap<u32, Policy> {
        &self.policies
    }

    /// The settings that it holds.
    #[must_use]
    pub fn settings(&self) -> Settings {
        self.settings
    }

    /// The tables, to read from.
    #[must_use]
    pub fn datapath(&self) -> &dyn Datapath {
        &*self.datapath
    }

    /// The tables, to detach.
    pub fn datapath_mut(&mut self) -> &mut dyn Datapath {
        &mut *self.datapath
    }

    fn try_apply(
        &mut self,
        policies: Option<&BTreeMap<u32, Policy>>,
        changes: Changes,
        settings: Settings,
        undo: &mut Vec<Undo>,
    ) -> Result<(), DatapathError> {
        if !settings.coarse_clock() {
            self.change_settings(self.settings.with_precise_clock(), undo)?;
        }
        for (index, policy) in policies.into_iter().flatten() {
            if self.policies.get(index) != Some(policy) {
                self.datapath.set_policy(*index, policy)?;
                self.policies.insert(*index, *policy);
            }
        }
        let (present, gone): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|(_, entry)| entry.is_some());
        for (prefix, entry) in present {
            self.change(prefix, entry, undo)?;
        }
        self.write_guards()?;
        if self.settings.coarse_clock() {
            self.change_settings(settings, undo)?;
        } else {
            self.change_settings(settings.with_precise_clock(), undo)?;
        }
        for (prefix, _) in gone {
            self.change(prefix, None, undo)?;
        }
        self.write_guards()?;
        self.change_settings(settings, undo)?;
        policies.map_or(Ok(()), |policies| self.forget_policies(policies))
    }

    fn change_settings(
        &mut self,
        settings: Settings,
        undo: &mut Vec<Undo>,
    ) -> Result<(), DatapathError> {
        if settings != self.settings {
            self.datapath.set_settings(settings)?;
            undo.push(Undo::Settings(self.settings));
            self.settings = settings;
        }
        Ok(())
    }

    fn change(
        &mut self,
        prefix: Prefix,
        entry: Option<ListEntry>,
        undo: &mut Vec<Undo>,
    ) -> Result<(), DatapathError> {
        let before = self.entry(prefix);
        if before == entry {
            return Ok(());
        }
        let guard = self.guards.entry(family(prefix)).or_default();
        if let Some(entry) = entry {
            self.datapath.set_entry(prefix, entry)?;
            if self.entries.insert(prefix, entry).is_none() {
                guard.add(prefix);
            }
        } else {
            self.datapath.remove_entry(prefix)?;
            self.entries.remove(&prefix);
            guard.remove(prefix);
        }
        undo.push(Undo::Entry(prefix, before));
        Ok(())
    }

    fn write_guards(&mut self) -> Result<(), DatapathError> {
        for (family, counts) in &mut self.guards {
            if let Some(guard) = counts.take_changed() {
                let answer = self.datapath.set_guard(*family, &guard);
                answer.inspect_err(|_| counts.retry())?;
            }
        }
        Ok(())
    }

    /// Empties the indices that no policy has any more. What they held is not read by any packet: no entry names them.
    fn forget_policies(&mut self, wanted: &BTreeMap<u32, Policy>) -> Result<(), DatapathError> {
        let held: Vec<u32> = self.policies.keys().copied().collect();
        for index in held.into_iter().filter(|index| !wanted.contains_key(index)) {
            self.datapath.set_policy(index, &Policy::default())?;
            self.policies.remove(&index);
        }
        Ok(())
    }

    /// Takes changes back, the last first. What fails now stays for the next time that the tables are compared.
    fn undo(&mut self, undo: Vec<Undo>) {
        for step in undo.into_iter().rev() {
            let answer = match step {
                Undo::Entry(prefix, before) => self.change(prefix, before, &mut Vec::new()),
                Undo::Settings(before) => {
                    self.settings = before;
                    self.datapath.set_settings(before)
                }
            };
            if let Err(error) = answer {
                tracing::error!(%error, "a change that failed could not be taken back");
            }
        }
        if let Err(error) = self.write_guards() {
            tracing::error!(%error, "a change that failed could not be taken back");
        }
    }
}

/// What takes a step back.
enum Undo {
    Entry(Prefix, Option<ListEntry>),
    Settings(Settings),
}

fn family(prefix: Prefix) -> IpFamily {
    IpFamily::of(prefix.address())
}
