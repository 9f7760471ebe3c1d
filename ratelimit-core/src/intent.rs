//! The desired state: configuration, bans of every origin, and runtime changes.

mod expiry_index;
mod inactive;
pub mod limited;
pub mod list;
mod offences;
pub mod overlay;
mod policy_action;
pub mod renewed;
mod rows;
mod statements;
mod target;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    iter,
    sync::Arc,
};

use ratelimit_common::{Instant, limit::LIMITS_MAX};

pub use self::{
    expiry_index::Ending,
    inactive::Inactive,
    offences::Offence,
    rows::{EntryRow, FOREVER, LimitRow, LimitedRow},
    target::Target,
};
use self::{
    list::{Difference, List},
    offences::Offences,
    overlay::InForce,
};
use crate::{
    ban::BanSpec,
    config::{Config, PolicyConfig},
    detection::Answer,
    ip_family::IpFamily,
    limit::LimitSpec,
    lists::Action,
    log_size::LogSize,
    origin::Origin,
    policies::{
        DEFAULT, NODE, Role, aggregate_name, destination_name, established_name, interface_name,
        is_detected, policy_of_list,
    },
    prefix::Prefix,
};

/// The whole intent.
pub struct Intent {
    /// The configuration.
    pub config: Config,
    bans: BTreeMap<(Prefix, Origin), EntryRow>,
    allows: BTreeMap<Prefix, EntryRow>,
    limits: BTreeMap<Target, LimitRow>,
    /// Runtime limits that are inactive.
    pub inactive: BTreeMap<Target, Inactive>,
    lists: BTreeMap<Arc<str>, Arc<List>>,
    offences: Offences,
    limited: BTreeMap<Prefix, LimitedRow>,
    /// The end of a time in which everything passes.
    pass_all: Option<Instant>,
    /// The number of automatic bans.
    automatic: usize,
    /// Entries that expire, soonest first.
    ends: BTreeSet<(Instant, Ending)>,
}

/// A change: a row to be, or to be gone.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// The ban of a prefix that is of this origin.
    Ban(Prefix, Origin, Option<EntryRow>),
    /// An allow of a prefix.
    Allow(Prefix, Option<EntryRow>),
    /// A list as a whole, and the prefixes of which it says something else than the one before it.
    List(Arc<str>, Option<Arc<List>>, Arc<[Prefix]>),
    /// Limits of sources, or of a destination.
    Limits(Target, Option<LimitRow>),
    /// Ban history of a source.
    Offence(Prefix, Option<Offence>),
    /// A further limit of a prefix that has part in an attack.
    Limited(Prefix, Option<LimitedRow>),
    /// Another configuration.
    Config(Box<Config>),
    /// Everything passes until then; `None` where packets are judged.
    PassAll(Option<Instant>),
}

impl Edit {
    /// The prefixes whose list entries it may change; none for the default policy.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> {
        let (one, many) = match self {
            Self::Ban(prefix, ..) | Self::Allow(prefix, _) | Self::Limited(prefix, _) => {
                (Some(*prefix), &[][..])
            }
            Self::Limits(target, _) => (target.prefix(), &[][..]),
            Self::List(_, _, touched) => (None, &touched[..]),
            Self::Offence(..) | Self::Config(_) | Self::PassAll(_) => (None, &[][..]),
        };
        one.into_iter().chain(many.iter().copied())
    }

    /// Whether it changes a policy.
    pub fn is_of_policy(&self) -> bool {
        matches!(self, Self::Limits(..) | Self::Limited(..)) || self.is_config()
    }

    /// Returns the target whose runtime limits it removes, if any.
    pub fn ended_limits(&self) -> Option<Target> {
        let Self::Limits(target, None) = self else {
            return None;
        };
        Some(*target)
    }

    /// Whether it is another configuration.
    pub fn is_config(&self) -> bool {
        matches!(self, Self::Config(_))
    }

    /// Returns whether it adds something.
    pub fn adds(&self) -> bool {
        match self {
            Self::Ban(_, _, row) | Self::Allow(_, row) => row.is_some(),
            Self::List(_, list, _) => list.is_some(),
            Self::Limits(_, row) => row.is_some(),
            Self::Limited(_, row) => row.is_some(),
            Self::Offence(..) | Self::Config(_) | Self::PassAll(_) => false,
        }
    }

    /// Whether it was set at runtime.
    pub fn is_runtime(&self) -> bool {
        matches!(
            self,
            Self::Ban(_, Origin::Manual | Origin::Forced, _) | Self::Allow(..) | Self::Limits(..)
        )
    }
}

/// A wanted policy.
#[derive(Clone, Debug, PartialEq)]
pub struct WantedPolicy<'a> {
    /// The name in the configuration, or the prefix whose limits were set at runtime.
    pub name: String,
    /// The policy whose limits and state it has; `None` where they are its own.
    pub base: Option<String>,
    /// The policy that its sources would be under without it, whose state they keep where the words
    /// mean the same.
    pub around: Option<String>,
    /// The limits.
    pub limits: Cow<'a, [LimitSpec]>,
    /// Further limits beside them, which have state of their own.
    pub further: Vec<LimitSpec>,
    /// Whether what they would drop passes.
    pub observe: bool,
    /// Whether the further limits are a dry run.
    pub further_observe: bool,
    /// The role of its limits.
    pub role: Role,
    /// The rule for banning sources that keep exceeding the limits.
    pub ban: Option<BanSpec>,
    /// The name of the second allowance of its sources for established connections.
    pub established: Option<String>,
}

impl<'a> WantedPolicy<'a> {
    /// Returns a policy with these limits and without a ban.
    pub fn new(
        name: String,
        limits: impl Into<Cow<'a, [LimitSpec]>>,
        observe: bool,
        role: Role,
    ) -> Self {
        Self {
            name,
            base: None,
            around: None,
            limits: limits.into(),
            further: Vec::new(),
            observe,
            further_observe: false,
            role,
            ban: None,
            established: None,
        }
    }

    /// All limits, the further ones last.
    pub fn all_limits(&self) -> impl Iterator<Item = &LimitSpec> {
        self.limits.iter().chain(&self.further)
    }
}

impl Intent {
    /// The intent of a configuration, with nothing set at runtime.
    pub fn new(config: Config) -> Self {
        Self {
            config,
            bans: BTreeMap::new(),
            allows: BTreeMap::new(),
            limits: BTreeMap::new(),
            inactive: BTreeMap::new(),
            lists: BTreeMap::new(),
            offences: Offences::default(),
            limited: BTreeMap::new(),
            pass_all: None,
            automatic: 0,
            ends: BTreeSet::new(),
        }
    }

    /// Returns only what policies depend on, under another configuration: no bans and allows, and
    /// no lists except those that select policies.
    pub fn policies_under(&self, config: Config) -> Self {
        let lists = self.lists_for(Action::Policy);
        Self {
            lists: lists
                .map(|(name, list)| (Arc::clone(name), Arc::clone(list)))
                .collect(),
            limits: self.limits.clone(),
            inactive: self.inactive.clone(),
            limited: self.limited.clone(),
            ..Self::new(config)
        }
    }

    /// Returns the difference between `list` and the existing list of that name, and the edit that
    /// replaces it; `None` if they are equal.
    pub fn list_edit(&self, name: &Arc<str>, mut list: Option<List>) -> (Difference, Option<Edit>) {
        let before = self.lists.get(name);
        let difference = List::replace(before.map(|list| &**list), list.as_mut());
        let same = match (before, &list) {
            (Some(before), Some(after)) => {
                before.file == after.file
                    && before.action == after.action
                    && before.cut == after.cut
            }
            (None, None) => true,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if same && difference.is_empty() {
            return (difference, None);
        }
        let touched: Arc<[Prefix]> = difference.touched.as_slice().into();
        let edit = Edit::List(Arc::clone(name), list.map(Arc::new), touched);
        (difference, Some(edit))
    }

    /// Sets all bans at once: trees built from sorted input are faster to build and full.
    pub fn take_bans(&mut self, bans: Vec<(Prefix, Origin, EntryRow)>) {
        let ending = bans.iter().filter(|(_, _, row)| row.until != FOREVER);
        let ends = ending.map(|(prefix, _, row)| (row.until, Ending::Ban(*prefix)));
        let others = std::mem::replace(&mut self.ends, ends.collect());
        self.ends.extend(others);
        let automatic = bans
            .iter()
            .filter(|(_, origin, _)| *origin == Origin::Automatic);
        self.automatic = automatic.count();
        let bans = bans.into_iter();
        self.bans = bans
            .map(|(prefix, origin, row)| ((prefix, origin), row))
            .collect();
    }

    /// Returns the size of the sliding logs: that of the largest configured or runtime limit.
    pub fn log_size(&self) -> LogSize {
        let runtime = self.limits.values().flat_map(|row| &row.limits);
        let of_attacks = self.limited.values().map(|row| &row.limit);
        let times = log_times(&self.config).max(longest(runtime.chain(of_attacks)));
        if times == 0 {
            return LogSize::NONE;
        }
        LogSize {
            times,
            logs: self.config.source.logs,
        }
    }

    /// The words that a record of a source must have: one for each limit of the largest policy of
    /// sources or prefixes, as a power of two. Inactive limits count, as they may come
    /// back, and the one that a source of an attack may get.
    pub fn record_words(&self) -> u32 {
        let runtime = self.limits.iter();
        let runtime = runtime.filter(|(target, _)| target.destination().is_none());
        let runtime = runtime.map(|(target, row)| self.with_row(*target, row).limits.len());
        let limited = self.limited.keys();
        let of_attacks = limited.map(|prefix| self.limited_policy(*prefix).further.len());
        let configured = of_sources(&self.config).map(Vec::len);
        let all = configured.chain(runtime).chain(of_attacks);
        let limits = all.max().unwrap_or_default();
        let words = limits.clamp(1, LIMITS_MAX).next_power_of_two();
        u32::try_from(words).unwrap_or(u32::MAX)
    }

    /// Makes a change, and returns the one that undoes it.
    pub fn edit(&mut self, edit: Edit) -> Edit {
        let come = edit.ending();
        let reverse = self.put(edit);
        self.note_ends(reverse.ending(), come);
        reverse
    }

    /// Makes changes, and leaves in the place of each the one that takes it back.
    pub fn edit_all(&mut self, edits: &mut [Edit]) {
        for part in edits.chunks_mut(TOGETHER) {
            if part.len() == TOGETHER && are_bans_in_order(part) {
                self.put_bans(part);
                continue;
            }
            for edit in part {
                let change = std::mem::replace(edit, NOTHING);
                *edit = self.edit(change);
            }
        }
    }

    /// Adds sorted bans. Trees are full after bulk insertion and half full after single insertions.
    fn put_bans(&mut self, edits: &mut [Edit]) {
        let mut coming = BTreeMap::new();
        for edit in edits.iter_mut() {
            let Edit::Ban(prefix, origin, row) = edit else {
                continue;
            };
            let key = (*prefix, origin.clone());
            let before = self.bans.remove(&key);
            if *origin == Origin::Automatic {
                self.automatic += usize::from(row.is_some());
                self.automatic -= usize::from(before.is_some());
            }
            coming.extend(std::mem::replace(row, before).map(|row| (key, row)));
        }
        self.bans.append(&mut coming);
        for before in edits {
            let Edit::Ban(prefix, origin, _) = before else {
                continue;
            };
            let row = self
                .ban_of(*prefix, origin)
                .filter(|row| row.until != FOREVER);
            let come = row.map(|row| (row.until, Ending::Ban(*prefix)));
            self.note_ends(before.ending(), come);
        }
    }

    /// Has all that ends do so at other points on the kernel's clock.
    pub fn move_ends(&mut self, moved: impl Fn(Instant) -> Instant) {
        let bans = self.bans.values_mut().map(|row| &mut row.until);
        let allows = self.allows.values_mut().map(|row| &mut row.until);
        let limits = self.limits.values_mut().map(|row| &mut row.entry.until);
        let inactive = self.inactive.values_mut().map(Inactive::until_mut);
        let limited = self.limited.values_mut().map(|row| &mut row.until);
        let rows = bans.chain(allows).chain(limits).chain(inactive);
        for until in rows.chain(limited) {
            *until = moved(*until);
        }
        for list in self.lists.values_mut() {
            *list = Arc::new(list.with_ends(&moved));
        }
        self.offences.move_ends(&moved);
        let ends = std::mem::take(&mut self.ends).into_iter();
        self.ends = ends.map(|(until, what)| (moved(until), what)).collect();
    }

    fn put(&mut self, edit: Edit) -> Edit {
        match edit {
            Edit::Ban(prefix, origin, row) => {
                let before = self.put_ban(prefix, &origin, row);
                Edit::Ban(prefix, origin, before)
            }
            Edit::Allow(prefix, row) => Edit::Allow(prefix, put(&mut self.allows, prefix, row)),
            Edit::Limits(target, row) => Edit::Limits(target, put(&mut self.limits, target, row)),
            Edit::List(name, list, touched) => {
                let before = put(&mut self.lists, Arc::clone(&name), list);
                Edit::List(name, before, touched)
            }
            Edit::Limited(prefix, row) => {
                Edit::Limited(prefix, put(&mut self.limited, prefix, row))
            }
            Edit::Offence(source, row) => Edit::Offence(source, self.offences.put(source, row)),
            Edit::Config(mut config) => {
                std::mem::swap(&mut self.config, &mut config);
                Edit::Config(config)
            }
            Edit::PassAll(until) => Edit::PassAll(std::mem::replace(&mut self.pass_all, until)),
        }
    }

    fn put_ban(
        &mut self,
        prefix: Prefix,
        origin: &Origin,
        row: Option<EntryRow>,
    ) -> Option<EntryRow> {
        let is_there = row.is_some();
        let before = put(&mut self.bans, (prefix, origin.clone()), row);
        if *origin == Origin::Automatic {
            self.automatic += usize::from(is_there);
            self.automatic -= usize::from(before.is_some());
        }
        before
    }

    /// The end of a time in which everything passes; `None` if packets are judged.
    pub const fn pass_all(&self) -> Option<Instant> {
        self.pass_all
    }

    /// All bans.
    pub fn bans(&self) -> &BTreeMap<(Prefix, Origin), EntryRow> {
        &self.bans
    }

    /// Returns the number of automatic bans.
    pub fn automatic_bans(&self) -> usize {
        self.automatic
    }

    /// Returns the ban history of a source.
    pub fn offence(&self, source: Prefix) -> Option<Offence> {
        self.offences.get(source)
    }

    /// The sources that were quiet for long enough at `now`.
    pub fn forgotten(&self, now: Instant) -> Vec<Prefix> {
        self.offences.over(now).collect()
    }

    /// The ban of a prefix that is of this origin.
    pub fn ban_of(&self, prefix: Prefix, origin: &Origin) -> Option<&EntryRow> {
        self.bans.get(&(prefix, origin.clone()))
    }

    /// The bans of a prefix, by their origins.
    pub fn bans_of(&self, prefix: Prefix) -> impl Iterator<Item = (&Origin, &EntryRow)> {
        let from_here = self.bans.range((prefix, Origin::FIRST)..);
        from_here
            .take_while(move |((other, _), _)| *other == prefix)
            .map(|((_, origin), row)| (origin, row))
    }

    /// The bans of a prefix and of those around it, without those of lists.
    pub fn bans_around(
        &self,
        prefix: Prefix,
    ) -> impl Iterator<Item = (Prefix, &Origin, &EntryRow)> {
        prefix.supernets().flat_map(|outer| {
            let bans = self.bans_of(outer);
            bans.map(move |(origin, row)| (outer, origin, row))
        })
    }

    /// Returns the bans in force at `now`, and the widest one of each list.
    pub fn bans_that_hold(
        &self,
        prefix: Prefix,
        now: Instant,
    ) -> impl Iterator<Item = (Prefix, Origin)> {
        let bans = self.bans_around(prefix);
        let bans = bans.filter(move |(_, _, row)| row.until > now);
        let listed = self.lists_for(Action::Ban).filter_map(move |(name, list)| {
            let mut around = list.around(prefix, now);
            let entry = around.find(|entry| entry.until > now)?;
            Some((entry.prefix, Origin::List(Arc::clone(name))))
        });
        bans.map(|(banned, origin, _)| (banned, origin.clone()))
            .chain(listed)
    }

    /// The widest allow of a prefix or around it that applies at `now`: of the configuration, set
    /// at runtime, or of a list.
    pub fn allowed_by(&self, prefix: Prefix, now: Instant) -> Option<Prefix> {
        let holds = |outer: &Prefix| {
            self.config.allow.binary_search(outer).is_ok()
                || self.allows.get(outer).is_some_and(|row| row.until > now)
        };
        let own = prefix.supernets().find(holds);
        own.or_else(|| {
            let mut lists = self.lists_for(Action::Allow);
            lists.find_map(|(_, list)| Some(list.around(prefix, now).next()?.prefix))
        })
    }

    /// Returns how many of the sorted prefixes are allowed at `now`.
    pub fn count_allowed(&self, prefixes: &[Prefix], now: Instant) -> usize {
        let set = self.allows.iter().filter(|(_, row)| row.until > now);
        let set = set.map(|(prefix, _)| *prefix);
        let listed = self.lists_for(Action::Allow).flat_map(|(_, list)| {
            let entries = list.entries().iter();
            let entries = entries.filter(move |entry| entry.until > now);
            entries.map(|entry| entry.prefix)
        });
        let mut allows: Vec<Prefix> = self.config.allow.clone();
        allows.extend(set.chain(listed));
        allows.sort_unstable();
        let mut counted: Option<Prefix> = None;
        let within = allows.into_iter().map(|allow| {
            if counted.is_some_and(|wider| wider.covers(allow)) {
                return 0;
            }
            counted = Some(allow);
            let first = prefixes.partition_point(|prefix| *prefix < allow);
            let within = prefixes[first..].iter();
            within.take_while(|inner| allow.covers(**inner)).count()
        });
        within.sum()
    }

    /// All lists, by name.
    pub fn lists(&self) -> &BTreeMap<Arc<str>, Arc<List>> {
        &self.lists
    }

    /// The lists with an action.
    pub fn lists_for(&self, action: Action) -> impl Iterator<Item = (&Arc<str>, &Arc<List>)> {
        let lists = self.lists.iter();
        lists.filter(move |(_, list)| list.action == action)
    }

    /// The runtime allows.
    pub fn allows(&self) -> &BTreeMap<Prefix, EntryRow> {
        &self.allows
    }

    /// The runtime limits.
    pub fn limits(&self) -> &BTreeMap<Target, LimitRow> {
        &self.limits
    }

    /// The name of the policy of a prefix: that of a further limit, of runtime limits, or the one
    /// of the configuration.
    pub fn policy_name(&self, prefix: Prefix) -> Option<String> {
        if self.limited.contains_key(&prefix) {
            return Some(self.limited_policy(prefix).name());
        }
        self.lasting_policy_name(prefix)
    }

    /// Returns the name of the policy without a further limit of just this prefix.
    fn lasting_policy_name(&self, prefix: Prefix) -> Option<String> {
        if self.limits_of(Target::Sources(prefix)).is_some() {
            return Some(prefix.to_string());
        }
        self.configured_policy_name(prefix).map(str::to_owned)
    }

    fn configured_policy_name(&self, prefix: Prefix) -> Option<&str> {
        self.policy_under(&self.config, prefix)
    }

    /// Returns the policy that `config` has for just this prefix: by its sources, else by the
    /// prefixes that its database has now.
    pub fn policy_under<'a>(&'a self, config: &'a Config, prefix: Prefix) -> Option<&'a str> {
        let mut policies = config.policies.iter();
        let named = policies.find(|(_, policy)| policy.sources.binary_search(&prefix).is_ok());
        named.map(|(name, _)| name.as_str()).or_else(|| {
            let mut selected = self.selected_under(config);
            selected.find_map(|(policy, list)| list.get(prefix).map(|_| policy))
        })
    }

    /// Returns the policies of `config` that have a database, with the prefixes that it has now.
    pub fn selected_under<'a>(
        &'a self,
        config: &'a Config,
    ) -> impl Iterator<Item = (&'a str, &'a List)> {
        self.lists_for(Action::Policy)
            .filter_map(move |(name, list)| {
                let is_configured = config.lists.contains_key(&**name);
                let policy = policy_of_list(name).filter(|_| is_configured)?;
                Some((policy, &**list))
            })
    }

    /// The prefixes whose sources a policy is for, without those of a database.
    pub fn prefixes_of(&self, policy: &str) -> Vec<Prefix> {
        match self.config.policies.get(policy) {
            Some(policy) => policy.sources.clone(),
            None if is_detected(policy) => self.limited_under(policy),
            None => policy.parse().into_iter().collect(),
        }
    }

    /// Returns all wanted policies: the default one first, those of wider prefixes and of the node
    /// last.
    pub fn policies(&self) -> Vec<WantedPolicy<'_>> {
        let of_sources = |target: Target| {
            let InForce {
                limits,
                observe,
                ban,
            } = self.in_force(target);
            WantedPolicy {
                ban,
                ..WantedPolicy::new(target.policy_name(), limits, observe, Role::Sources)
            }
        };
        let mut wanted = vec![WantedPolicy {
            established: self.established_of(DEFAULT, &self.config.default_policy),
            ..of_sources(Target::Default)
        }];
        let configured = self.config.policies.iter();
        wanted.extend(configured.map(|(name, policy)| WantedPolicy {
            ban: policy.ban,
            established: self.established_of(name, policy),
            ..WantedPolicy::new(name.clone(), &policy.limits, policy.observe, Role::Sources)
        }));
        let runtime = self.limits_in_force();
        let prefixes = runtime.filter_map(|(target, _)| target.sources());
        wanted.extend(prefixes.map(|prefix| WantedPolicy {
            around: Some(self.policy_around(prefix)),
            ..of_sources(Target::Sources(prefix))
        }));
        let limited = self.limited_policies(&wanted);
        wanted.extend(limited);
        wanted.extend(self.wide_policies());
        wanted
    }

    /// The name of the second allowance of a policy, where it has one. With runtime limits a policy
    /// has none: they say what its sources may send.
    fn established_of(&self, name: &str, policy: &PolicyConfig) -> Option<String> {
        let is_default = name == DEFAULT;
        let is_replaced = is_default && self.limits_of(Target::Default).is_some();
        (!is_replaced && !policy.established.is_empty()).then(|| established_name(name))
    }

    /// The second allowances for established connections.
    fn established_policies(&self) -> impl Iterator<Item = WantedPolicy<'_>> {
        let default = (DEFAULT, &self.config.default_policy);
        let named = self.config.policies.iter();
        let all = iter::once(default).chain(named.map(|(name, policy)| (name.as_str(), policy)));
        all.filter_map(|(name, policy)| {
            let own = self.established_of(name, policy)?;
            Some(WantedPolicy::new(
                own,
                &policy.established,
                false,
                Role::Established,
            ))
        })
    }

    /// The name of the policy that the sources of a prefix would be under without runtime limits of
    /// just this prefix.
    fn policy_around(&self, prefix: Prefix) -> String {
        let mut outer = prefix.supernets().rev().skip(1);
        let around = || outer.find_map(|outer| self.lasting_policy_name(outer));
        let own = self.configured_policy_name(prefix).map(str::to_owned);
        own.or_else(around).unwrap_or_else(|| DEFAULT.to_owned())
    }

    fn wide_policies(&self) -> impl Iterator<Item = WantedPolicy<'_>> {
        let aggregate = &self.config.aggregate;
        let levels = IpFamily::ALL.into_iter().flat_map(move |family| {
            let levels = aggregate.levels(family).iter();
            levels.map(move |level| {
                let name = aggregate_name(family, level.prefix);
                let role = Role::Prefixes(family, level.prefix);
                WantedPolicy::new(name, &level.limits, aggregate.observe, role)
            })
        });
        let node = &self.config.node;
        let node = (!node.limits.is_empty())
            .then(|| WantedPolicy::new(NODE.to_owned(), &node.limits, node.observe, Role::Node));
        let wide = levels.chain(self.interface_policies());
        wide.chain(self.destination_policies())
            .chain(node)
            .chain(self.established_policies())
    }

    fn interface_policies(&self) -> impl Iterator<Item = WantedPolicy<'_>> {
        self.config.interfaces.iter().filter_map(|interface| {
            let node = interface.node.as_ref()?;
            let name = interface_name(&interface.name);
            let role = Role::Interface;
            Some(WantedPolicy::new(name, &node.limits, node.observe, role))
        })
    }

    fn destination_policies(&self) -> impl Iterator<Item = WantedPolicy<'_>> {
        let configured = self.config.destinations.keys().copied();
        let runtime = self.limits_in_force();
        let runtime = runtime.filter_map(|(target, _)| target.destination());
        let prefixes: BTreeSet<Prefix> = configured.chain(runtime).collect();
        prefixes
            .into_iter()
            .map(|prefix| self.destination_policy(prefix))
    }

    /// Runtime limits replace `limits`. `source_limits` remain.
    fn destination_policy(&self, prefix: Prefix) -> WantedPolicy<'_> {
        let configured = self.config.destinations.get(&prefix);
        let InForce {
            limits, observe, ..
        } = self.in_force(Target::Destination(prefix));
        let further = configured.map(|destination| destination.source_limits.clone());
        WantedPolicy {
            further: further.unwrap_or_default(),
            further_observe: configured.is_some_and(|destination| destination.observe),
            ..WantedPolicy::new(
                destination_name(prefix),
                limits,
                observe,
                Role::Destination(prefix),
            )
        }
    }
}

/// The limits of which sources or prefixes have state, those of one record together.
fn of_sources(config: &Config) -> impl Iterator<Item = &Vec<LimitSpec>> {
    let default = [&config.default_policy].into_iter();
    let policies = default.chain(config.policies.values());
    let families = IpFamily::ALL.into_iter();
    let levels = families.flat_map(|family| config.aggregate.levels(family));
    let destinations = config.destinations.values();
    policies
        .flat_map(|policy| [&policy.limits, &policy.established])
        .chain(levels.map(|level| &level.limits))
        .chain(destinations.map(|destination| &destination.source_limits))
}

/// The times that the logs of a configuration keep.
pub fn log_times(config: &Config) -> u32 {
    let of_attacks = config.attacks.values();
    let of_attacks = of_attacks.filter(|rule| rule.answer == Answer::Limit);
    let of_attacks = of_attacks.map(|rule| &rule.limit);
    longest(of_sources(config).flatten().chain(of_attacks))
}

/// Returns the length of the longest log of `limits`; 0 if there is none.
pub fn longest<'a>(limits: impl IntoIterator<Item = &'a LimitSpec>) -> u32 {
    limits
        .into_iter()
        .map(LimitSpec::log_times)
        .max()
        .unwrap_or_default()
}

/// The number of bans inserted at once.
const TOGETHER: usize = 1 << 14;

/// An edit without effect if nothing exists.
const NOTHING: Edit = Edit::Limits(Target::Default, None);

fn are_bans_in_order(edits: &[Edit]) -> bool {
    let key = |edit: &Edit| {
        let Edit::Ban(prefix, origin, Some(_)) = edit else {
            return None;
        };
        Some((*prefix, origin.clone()))
    };
    edits.iter().all(|edit| key(edit).is_some())
        && edits.is_sorted_by(|left, right| key(left) < key(right))
}

fn put<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
