//! Brings the datapath to the wanted state, and back if that fails.

mod atomic_change;
pub mod leases;
pub mod verify;

use std::collections::{BTreeMap, HashMap, HashSet};

use ratelimit_common::{
    BanBudgets, Instant, Limit, ListEntry, Policy, Record, Settings,
    compact::Region,
    features::Features,
    generation::{ByGeneration, Generation},
    layout::NODE_POLICIES,
};
use ratelimit_core::{
    class_tables::ClassTables, compile::Tables, ip_family::IpFamily, prefix::Prefix,
};

use self::verify::Spare;
use super::prefix_filters::PrefixFilterCounts;
use crate::{
    control::reports::progress::Progress,
    datapath::{self, Attachments, Datapath, DatapathError, EntryByGeneration, ScanPosition},
};

/// The owner of the datapath. It remembers the content of the tables, so a change writes only the
/// differences.
pub struct Enforcer {
    datapath: Datapath,
    /// The generation in force.
    generation: Generation,
    /// The values of entries in that generation.
    entries: BTreeMap<Prefix, ListEntry>,
    /// Entries with another value in the other generation, left by a daemon that died during a
    /// change.
    unsettled: Vec<Prefix>,
    /// The number of entries of each family.
    counts: [u64; 2],
    held: Tables,
    prefix_filters: PrefixFilterCounts,
    /// The positions at which the comparison of each family continues.
    scans: [ScanPosition; 2],
    /// The position at which the comparison of classes and policies continues.
    spare: Spare,
    /// Whether a failed change could not be undone completely.
    is_in_doubt: bool,
    /// Receives the number of written entries.
    pub progress: Progress,
}

/// Progress is reported after this many entries: as many as all threads write at once.
const REPORTED_AT_ONCE: usize = 1 << 18;
/// Entries per write.
const CHUNK: usize = 4096;

/// New entries are merged if they are more than this part of the existing ones.
const MERGED_PART: usize = 4;

/// Entries to write, or to remove if `None`.
pub type Changes = Vec<(Prefix, Option<ListEntry>)>;

impl Enforcer {
    /// Adopts the datapath as it is.
    pub fn adopt(datapath: Datapath) -> datapath::Result<Self> {
        let mut enforcer = Self {
            datapath,
            generation: Generation::default(),
            entries: BTreeMap::new(),
            unsettled: Vec::new(),
            counts: [0; 2],
            held: Tables::default(),
            prefix_filters: PrefixFilterCounts::default(),
            scans: <[ScanPosition; 2]>::default(),
            spare: Spare::default(),
            is_in_doubt: false,
            progress: Progress::default(),
        };
        enforcer.reread()?;
        enforcer.forget_unnamed_twins()?;
        Ok(enforcer)
    }

    /// Removes policies left by a daemon that died before an entry named them, if there are others
    /// of the same scope. Clocks and regions continue from the policies that judged packets. If
    /// nothing names any of them, the scope is retired: each of them has the usage, and one stays.
    fn forget_unnamed_twins(&mut self) -> datapath::Result<()> {
        let mut scopes: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (index, policy) in &self.held.policies {
            scopes.entry(policy.scope()).or_default().push(*index);
        }
        scopes.retain(|_, indices| indices.len() > 1);
        if scopes.is_empty() {
            return Ok(());
        }
        let named = self.named();
        for indices in scopes.values() {
            let (in_force, mut unnamed): (Vec<u32>, Vec<u32>) =
                indices.iter().partition(|index| named.contains(index));
            if in_force.is_empty() {
                unnamed.pop();
            }
            for index in unnamed {
                self.datapath.set_policy(index, &Policy::default())?;
                self.held.policies.remove(&index);
            }
        }
        Ok(())
    }

    /// Returns the indices of the policies that may judge packets.
    fn named(&self) -> HashSet<u32> {
        let settings = self.held.settings;
        let of_prefixes = self.held.switched.aggregates.iter();
        let of_prefixes = of_prefixes.flat_map(|levels| (0..).map_while(|at| levels.get(at)));
        let of_interfaces = self.held.switched.interfaces.values();
        let of_interfaces = of_interfaces
            .flat_map(|rule| [rule.policy(), rule.node()])
            .flatten();
        let entries = self.entries.values();
        let named = entries.flat_map(|entry| entry.policy().into_iter().chain(entry.destination()));
        let mut named: HashSet<u32> = named
            .chain(of_prefixes.map(|level| u32::from(level.policy)))
            .chain(settings.node_policy())
            .chain(of_interfaces)
            .chain([settings.default_policy()])
            .collect();
        let policies = named.iter().filter_map(|it| self.held.policies.get(it));
        let beside: Vec<u32> = policies
            .flat_map(|policy| policy.further().into_iter().chain(policy.established()))
            .collect();
        named.extend(beside);
        named
    }

    /// Reads the tables again, in case another process changed them.
    pub fn reread(&mut self) -> datapath::Result<()> {
        let entries = self.datapath.lists.all()?;
        self.held = self.read_tables()?;
        self.take_entries(entries);
        Ok(())
    }

    fn read_tables(&mut self) -> datapath::Result<Tables> {
        let policies = self.datapath.policies.all()?.into_iter().collect();
        let classes = self.datapath.policies.classes()?;
        self.read_others(policies, classes)
    }

    /// Reads all tables except those that are compared in parts. Unnamed policies and the arrays of
    /// classes are assumed to be as written.
    fn read_tables_in_use(&mut self) -> datapath::Result<Tables> {
        let mut policies = self.held.retired.clone();
        for index in self.held.policies.keys() {
            let policy = self.datapath.policies.get(*index)?;
            if policy != Policy::default() {
                policies.insert(*index, policy);
            }
        }
        self.read_others(policies, self.held.classes.clone())
    }

    /// Reads the generation in force, and its tables other than policies and classes.
    fn read_others(
        &mut self,
        policies: BTreeMap<u32, Policy>,
        classes: ClassTables,
    ) -> datapath::Result<Tables> {
        let settings = self.datapath.policies.settings()?;
        let generation = settings.generation();
        self.generation = generation;
        let retired = self.held.retired.clone();
        let (retired, policies) = policies
            .into_iter()
            .partition(|(index, policy)| retired.get(index) == Some(policy));
        Ok(Tables {
            policies,
            retired,
            classes,
            pass_all_until: self.datapath.policies.pass_all_until()?,
            ban_budgets: self.datapath.policy_bans.budgets()?,
            switched: self.datapath.switched()?.of(generation).clone(),
            // The generation is compared separately.
            settings: settings.in_generation(Generation::First),
        })
    }

    fn take_entries(&mut self, entries: Vec<(Prefix, EntryByGeneration)>) {
        let unsettled = entries.iter().filter(|(_, entry)| !entry.is_settled());
        self.unsettled = unsettled.map(|(prefix, _)| *prefix).collect();
        let entries = entries.into_iter();
        self.entries = entries
            .map(|(prefix, entry)| (prefix, *entry.of(self.generation)))
            .collect();
        self.counts = [0; 2];
        for prefix in self.entries.keys() {
            self.counts[IpFamily::of(prefix.address()) as usize] += 1;
        }
        self.restore_prefix_filters();
    }

    /// Gives entries that a dead daemon left between two generations the same value in both. No
    /// packet uses the other generation.
    fn settle(&mut self) -> datapath::Result<()> {
        for prefixes in self.unsettled.chunks(CHUNK) {
            let entries = prefixes.iter().filter_map(|prefix| {
                let entry = self.entries.get(prefix)?;
                Some((*prefix, EntryByGeneration::both(*entry)))
            });
            let entries: Vec<_> = entries.collect();
            self.datapath.lists.set(&entries)?;
        }
        self.unsettled.clear();
        Ok(())
    }

    /// Repairs the prefix-length filters, and returns how many words were wrong.
    fn restore_prefix_filters(&mut self) -> usize {
        let (prefix_filters, wrong) =
            PrefixFilterCounts::restore(&self.entries, &mut self.datapath.lists);
        self.prefix_filters = prefix_filters;
        wrong
    }

    /// Changes entries and, if given, all other tables, in one step. Each packet is judged by the
    /// old or by the new state, even if the daemon dies during the change.
    ///
    /// A change of a single word, the settings or one entry, is written in place. Any other change
    /// is written into the generation that is not in force ([`cross`](Self::cross)).
    ///
    /// # Errors
    ///
    /// Returns the first refusal of a table. Everything is then as before.
    pub fn apply(&mut self, changes: Changes, wanted: Option<Tables>) -> datapath::Result<()> {
        if let Some(wanted) = &wanted {
            self.widen(wanted.features())?;
        }
        let tables = wanted.is_some().then(|| self.held.clone());
        let before = changes.iter();
        let entries = before.map(|(prefix, _)| (*prefix, self.entry(*prefix)));
        let entries = entries.collect();
        let answer = self.try_apply(changes, wanted);
        if answer.is_err() {
            self.restore(entries, tables);
        }
        answer
    }

    /// Adds features to the programs.
    pub fn widen(&mut self, features: Features) -> datapath::Result<()> {
        let has = self.datapath.programs.features();
        let wanted = has | features | self.held.features();
        if wanted == has {
            return Ok(());
        }
        self.datapath
            .programs
            .specialise(wanted)
            .map_err(|error| DatapathError::Program(error.into()))
    }

    /// Removes features that the tables do not use from the programs.
    ///
    /// # Errors
    ///
    /// Fails if a program cannot be replaced. It then has unused features.
    pub fn narrow(&mut self) -> anyhow::Result<()> {
        let features = self.held.features();
        if self.datapath.programs.features() == features {
            return Ok(());
        }
        self.datapath.programs.specialise(features)
    }

    /// Removes features that the tables do not use from the programs that are attached next, so
    /// that each is loaded once.
    pub fn narrow_next(&mut self) {
        let features = self.held.features();
        self.datapath.programs.set_features(features);
    }

    /// Returns the changes from the current entries to `wanted`, ordered by prefix.
    pub fn difference(&self, wanted: &[(Prefix, ListEntry)]) -> Changes {
        let mut changes = Changes::new();
        let mut held = self.entries.iter().peekable();
        for (prefix, entry) in wanted {
            while let Some((gone, _)) = held.next_if(|(other, _)| *other < prefix) {
                changes.push((*gone, None));
            }
            let before = held.next_if(|(other, _)| *other == prefix);
            if before.is_none_or(|(_, before)| before != entry) {
                changes.push((*prefix, Some(*entry)));
            }
        }
        changes.extend(held.map(|(gone, _)| (*gone, None)));
        changes
    }

    /// Returns the entries in the datapath, ordered by prefix: wider prefixes first.
    pub fn entries(&self) -> impl Iterator<Item = (Prefix, ListEntry)> {
        self.entries.iter().map(|(prefix, entry)| (*prefix, *entry))
    }

    /// Returns the entry of a prefix in the datapath.
    pub fn entry(&self, prefix: Prefix) -> Option<ListEntry> {
        self.entries.get(&prefix).copied()
    }

    /// Returns the number of entries.
    pub fn len(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Returns the number of entries of a family.
    pub fn count(&self, family: IpFamily) -> u64 {
        self.counts[family as usize]
    }

    /// Returns the tables other than the entries.
    pub fn held(&self) -> &Tables {
        &self.held
    }

    pub fn datapath(&self) -> &Datapath {
        &self.datapath
    }

    pub fn datapath_mut(&mut self) -> &mut Datapath {
        &mut self.datapath
    }

    pub fn attachments(&mut self) -> &mut dyn Attachments {
        &mut *self.datapath.programs
    }

    fn try_apply(&mut self, changes: Changes, wanted: Option<Tables>) -> datapath::Result<()> {
        self.settle()?;
        let Some(wanted) = wanted else {
            return if atomic_change::is_nested(&changes, &self.entries) {
                self.cross(changes, None, &[])
            } else {
                self.try_change(changes)
            };
        };
        // The limits of each generation count only classes that exist in it.
        let both = self.held.classes.union(&wanted.classes);
        self.change_classes(both)?;
        self.keep_retired(&wanted)?;
        let moved = self.add_policies(&wanted.policies)?;
        self.change_pass_all_until(wanted.pass_all_until)?;
        self.change_ban_budgets(wanted.ban_budgets)?;
        if !moved.is_empty() || self.needs_atomic_change(&changes, &wanted) {
            self.cross(changes, Some(&wanted), &moved)?;
        } else {
            self.try_change(changes)?;
            self.clear_node_before(wanted.settings)?;
            self.change_settings(wanted.settings)?;
        }
        self.clear_up(&wanted);
        Ok(())
    }

    /// Returns whether a packet could see one table changed and another one unchanged if they
    /// changed in turn.
    fn needs_atomic_change(&self, changes: &Changes, wanted: &Tables) -> bool {
        let settings = wanted.settings != self.held.settings;
        self.held.switched != wanted.switched
            || (settings && !changes.is_empty())
            || atomic_change::is_nested(changes, &self.entries)
    }

    /// Moves retired policies to the smaller regions that are left for them, removes those without
    /// room, and adopts those that return. In the order of their indices, as one may get the region
    /// of another.
    fn keep_retired(&mut self, wanted: &Tables) -> datapath::Result<()> {
        let in_force: HashSet<u32> = self.held.policies.values().map(Policy::scope).collect();
        let coming: HashSet<u32> = wanted.policies.values().map(Policy::scope).collect();
        for (index, policy) in self.held.retired.clone() {
            match wanted.retired.get(&index) {
                Some(same) if *same == policy => {}
                Some(smaller) => {
                    for (from, to) in policy.limits().zip(smaller.limits()) {
                        self.datapath.sources.clear_region(to.region())?;
                        self.datapath.sources.copy_region(from.region(), to)?;
                    }
                    self.datapath.set_policy(index, smaller)?;
                    self.held.retired.insert(index, *smaller);
                }
                None if wanted.policies.get(&index) == Some(&policy) => {
                    self.held.retired.remove(&index);
                    self.held.policies.insert(index, policy);
                }
                // It is removed after its usage was copied.
                None if coming.contains(&policy.scope()) && !in_force.contains(&policy.scope()) => {
                }
                None => {
                    self.datapath.set_policy(index, &Policy::default())?;
                    self.held.retired.remove(&index);
                }
            }
        }
        Ok(())
    }

    /// Writes policies to indices that nothing names yet, and returns the regions from which their
    /// limits move, with these limits. Usage of retired policies is copied before the new policy is
    /// written. So if the daemon dies, no policy has a region without its usage.
    fn add_policies(
        &mut self,
        wanted: &BTreeMap<u32, Policy>,
    ) -> datapath::Result<Vec<(Region, Limit)>> {
        let in_force: HashSet<u32> = self.held.policies.values().map(Policy::scope).collect();
        let mut moved: Vec<(Region, Limit)> = Vec::new();
        // Policies of the same scope share a region.
        let mut filled: Vec<Region> = Vec::new();
        let mut by_scope: HashMap<u32, Vec<Policy>> = HashMap::new();
        for held in self
            .held
            .policies
            .values()
            .chain(self.held.retired.values())
        {
            by_scope.entry(held.scope()).or_default().push(*held);
        }
        for (index, policy) in wanted {
            if self.held.policies.get(index) == Some(policy) {
                continue;
            }
            let held = by_scope.get(&policy.scope()).map_or(&[][..], Vec::as_slice);
            for (place, limit) in policy.limits().enumerate() {
                let region = |held: &Policy| held.limit(place).map(Limit::region);
                let stays = held.iter().any(|held| region(held) == Some(limit.region()));
                if limit.region().sets() == 0 || stays || filled.contains(&limit.region()) {
                    continue;
                }
                filled.push(limit.region());
                // Empty the region, so that no old word is read with another meaning.
                self.datapath.sources.clear_region(limit.region())?;
                let from = held.first().and_then(region).filter(|from| from.sets() > 0);
                match from {
                    Some(from) if in_force.contains(&policy.scope()) => moved.push((from, *limit)),
                    Some(from) => self.datapath.sources.copy_region(from, limit)?,
                    None => {}
                }
            }
            if policy.has_given_slot() && !held.iter().any(|held| held.slot() == policy.slot()) {
                self.datapath
                    .sources
                    .set_total(policy.slot(), Record::default())?;
            }
            // Recorded even if the write fails, so that it is removed then.
            self.held.policies.insert(*index, *policy);
            self.datapath.set_policy(*index, policy)?;
        }
        Ok(moved)
    }

    /// Removes what only packets under way during the change could use. The change is in force even
    /// if this fails; the rest is removed when the tables are compared.
    fn clear_up(&mut self, wanted: &Tables) {
        let mut held = self.held.policies.keys();
        if held.any(|index| !wanted.policies.contains_key(index)) {
            self.datapath.programs.wait_for_packets();
        }
        let answer = self
            .change_classes(wanted.classes.clone())
            .and_then(|()| self.forget_policies(wanted));
        if let Err(error) = answer {
            self.doubt(&error);
        }
    }

    fn doubt(&mut self, error: &DatapathError) {
        self.is_in_doubt = true;
        tracing::warn!(%error, "cannot remove leftovers of a change");
    }

    /// Changes entries: additions first, then removals.
    fn try_change(&mut self, changes: Changes) -> datapath::Result<()> {
        let coming = changes.iter().filter(|(_, entry)| entry.is_some());
        let mut present = Vec::with_capacity(coming.count());
        let mut gone = Vec::new();
        for (prefix, entry) in changes {
            match (self.entry(prefix), entry) {
                (before, Some(entry)) if before != Some(entry) => {
                    present.push((prefix, EntryByGeneration::both(entry)));
                }
                (Some(_), None) => gone.push(prefix),
                (Some(_), Some(_)) | (None, None | Some(_)) => {}
            }
        }
        self.put_all(present)?;
        self.remove_all_entries(&gone)
    }

    fn put_all(&mut self, present: Vec<(Prefix, EntryByGeneration)>) -> datapath::Result<()> {
        let coming = present.iter().map(|(prefix, _)| *prefix);
        let coming: Vec<Prefix> = coming
            .filter(|prefix| self.entry(*prefix).is_none())
            .collect();
        self.prefix_filters
            .reserve(&coming, &self.entries, &mut self.datapath.lists);
        drop(coming);
        if present.len() >= CHUNK && present.len() >= self.entries.len() / MERGED_PART {
            return self.put_many(present);
        }
        let mut chunks = present.chunks(CHUNK);
        chunks.try_for_each(|entries| self.put(entries))
    }

    fn remove_all_entries(&mut self, gone: &[Prefix]) -> datapath::Result<()> {
        let mut chunks = gone.chunks(CHUNK);
        chunks.try_for_each(|prefixes| self.take_away(prefixes))
    }

    /// Writes entries that differ from the current ones, after updating the prefix-length filter.
    fn put(&mut self, entries: &[(Prefix, EntryByGeneration)]) -> datapath::Result<()> {
        for (prefix, entry) in entries {
            let before = self.entries.insert(*prefix, *entry.of(self.generation));
            if before.is_none() {
                self.prefix_filters.add(*prefix, &mut self.datapath.lists);
                self.counts[IpFamily::of(prefix.address()) as usize] += 1;
            }
        }
        // If this fails, some of them were written. All count as written, so that all are undone:
        // removing a missing entry is not an error.
        self.datapath.lists.set(entries)?;
        self.progress.advance(entries.len());
        Ok(())
    }

    /// Writes many entries. Merging them into a new tree is faster than inserting one by one, and
    /// the tree is full.
    fn put_many(&mut self, mut entries: Vec<(Prefix, EntryByGeneration)>) -> datapath::Result<()> {
        // A prefix with several changes occurs more than once.
        entries.sort_unstable_by_key(|(prefix, _)| *prefix);
        entries.dedup_by_key(|(prefix, _)| *prefix);
        for (prefix, _) in &entries {
            if self.entry(*prefix).is_none() {
                self.prefix_filters.add(*prefix, &mut self.datapath.lists);
                self.counts[IpFamily::of(prefix.address()) as usize] += 1;
            }
        }
        let Self {
            datapath, progress, ..
        } = self;
        let answer = entries.chunks(REPORTED_AT_ONCE).try_for_each(|part| {
            datapath.lists.set(part)?;
            progress.advance(part.len());
            Ok(())
        });
        let held = entries.into_iter();
        let mut held = held
            .map(|(prefix, entry)| (prefix, *entry.of(self.generation)))
            .collect();
        self.entries.append(&mut held);
        answer
    }

    /// Removes entries, and updates the prefix-length filter afterwards.
    fn take_away(&mut self, prefixes: &[Prefix]) -> datapath::Result<()> {
        if let Err(error) = self.datapath.lists.remove(prefixes) {
            // Some may be gone without the prefix-length filter having been updated.
            let held = prefixes.iter().filter_map(|prefix| {
                Some((*prefix, EntryByGeneration::both(self.entry(*prefix)?)))
            });
            let held: Vec<_> = held.collect();
            self.datapath.lists.set(&held)?;
            return Err(error);
        }
        for prefix in prefixes {
            if self.entries.remove(prefix).is_some() {
                self.prefix_filters
                    .remove(*prefix, &mut self.datapath.lists);
                self.counts[IpFamily::of(prefix.address()) as usize] -= 1;
            }
        }
        Ok(())
    }

    fn change_classes(&mut self, classes: ClassTables) -> datapath::Result<()> {
        if classes == self.held.classes {
            return Ok(());
        }
        let answer = self.datapath.policies.set_classes(&classes);
        // On failure, some of them may have been written.
        self.held.classes = classes;
        answer
    }

    /// Writes the end of pass-all before the settings enable it, so that it ends on its own. A past
    /// end disables it.
    fn change_pass_all_until(&mut self, until: Instant) -> datapath::Result<()> {
        if until != self.held.pass_all_until {
            self.datapath.policies.set_pass_all_until(until)?;
            self.held.pass_all_until = until;
        }
        Ok(())
    }

    fn change_ban_budgets(&mut self, limit: BanBudgets) -> datapath::Result<()> {
        if limit != self.held.ban_budgets {
            self.datapath.policy_bans.set_budgets(limit)?;
            self.held.ban_budgets = limit;
        }
        Ok(())
    }

    /// Turns sampling by the program on or off.
    pub fn sample(&mut self, samples: bool) -> datapath::Result<()> {
        let settings = self.held.settings.sampling(samples);
        self.change_settings(settings)
    }

    fn change_settings(&mut self, settings: Settings) -> datapath::Result<()> {
        if settings != self.held.settings {
            self.datapath
                .set_settings(settings.in_generation(self.generation))?;
            self.held.settings = settings;
        }
        Ok(())
    }

    /// Clears the state of the node's policy in `settings`, unless that policy is already in force.
    fn clear_node_before(&mut self, settings: Settings) -> datapath::Result<()> {
        let scope = |settings: Settings| {
            let policy = self.held.policies.get(&settings.node_policy()?);
            policy.map(Policy::scope)
        };
        match (scope(self.held.settings), scope(settings)) {
            (before, Some(after)) if before != Some(after) => self
                .datapath
                .sources
                .set_total(after % NODE_POLICIES, Record::default()),
            (None | Some(_), None | Some(_)) => Ok(()),
        }
    }

    /// Clears the indices that no policy uses any more, except retired ones. No entry names them.
    fn forget_policies(&mut self, wanted: &Tables) -> datapath::Result<()> {
        let policies = self.held.policies.clone();
        for (index, policy) in policies {
            if wanted.policies.contains_key(&index) {
                continue;
            }
            if wanted.retired.get(&index) == Some(&policy) {
                self.held.retired.insert(index, policy);
            } else {
                self.datapath.set_policy(index, &Policy::default())?;
            }
            self.held.policies.remove(&index);
        }
        let retired: Vec<u32> = self.held.retired.keys().copied().collect();
        for index in retired {
            if !wanted.retired.contains_key(&index) {
                self.datapath.set_policy(index, &Policy::default())?;
                self.held.retired.remove(&index);
            }
        }
        Ok(())
    }

    /// Enforces the plan before a failed change. New entries go first, as the table may be full.
    /// What fails now is repaired when the tables are compared.
    fn restore(&mut self, entries: Changes, tables: Option<Tables>) {
        let tables = tables.map(|mut tables| {
            // Usage that moved to a smaller region stays there.
            tables.retired.extend(self.held.retired.clone());
            tables
        });
        let answer = self.try_change(entries);
        if let Err(error) = answer.and_then(|()| self.try_apply(Changes::new(), tables)) {
            self.doubt(&error);
        }
    }
}
