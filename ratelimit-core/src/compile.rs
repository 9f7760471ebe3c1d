//! Compiles the intent into the contents of the datapath: policies, classes, list entries,
//! settings.

pub mod carried;
pub mod class_numbers;
pub mod clock_choice;
mod destination_slots;
mod node_scope;
mod policy;
pub mod regions;
mod tables;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    iter,
    net::IpAddr,
    sync::Arc,
};

use jiff::Timestamp;
use ratelimit_common::{
    BanBudget, BanBudgets, Instant, Policy, Settings,
    aggregate::{Aggregate, Aggregates},
    challenge,
    interface::InterfaceRule,
    limit::LIMITS_MAX,
    new_sources::Budget,
};

use self::{
    class_numbers::{ClassNumbers, TooManyClasses},
    policy::{Compiler, select, shares_state, terms},
    regions::{
        NoRoom, Regions, is_placed, is_whole, limited_sources, sets_for, sources_of, table_sets,
    },
};
pub use self::{
    policy::keeps_state,
    tables::{Switched, Tables},
};
use crate::{
    ban::BanSpec,
    class::{Catalogue, Class, Selected, UnknownClass},
    class_tables::ClassTables,
    config::{ClockWish, Config, ListConfig, StateStore},
    counter_slots::{CounterSlots, Owner},
    intent::{
        Edit, FOREVER, Intent, Target, WantedPolicy,
        list::{List, ListEntry},
    },
    ip_family::IpFamily,
    limit::{LimitSpec, sharing},
    lists::{Reading, merge},
    memory_tables::MemoryTables,
    policies::{
        DEFAULT, NODE, Named, Policies, Role, TooManyPolicies, Used, destination_name,
        interface_name,
    },
    prefix::Prefix,
    rules::{CountedPolicy, Rules, Statement},
};

/// Seeds for tags in a simulation, which must be reproducible. The daemon draws random ones.
const SEEDS: [u64; 2] = [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

/// The reason the datapath cannot hold the intent.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum CompileError {
    /// There are too many policies.
    #[error(transparent)]
    TooManyPolicies(#[from] TooManyPolicies),
    /// There are too many classes.
    #[error(transparent)]
    TooManyClasses(#[from] TooManyClasses),
    /// The compact store has no room.
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    /// A limit, which was set at runtime, counts a class that is not there.
    #[error(
        "the runtime limits of {policy} use the class `{class}`, which is not configured: add \
         [class.{class}], or remove the limits first"
    )]
    UnknownClass {
        /// The name of the policy.
        policy: String,
        /// The name of the class.
        class: String,
    },
    /// The limits that were set at runtime, with those of the policy around them, are too many.
    #[error(
        "{policy} has {count} limits including runtime limits (maximum {LIMITS_MAX}): remove the \
         runtime limits first"
    )]
    TooManyLimits {
        /// The name of the policy.
        policy: String,
        /// The number of limits.
        count: usize,
    },
    /// Nodes cannot share a limit, which was set at runtime.
    #[error(
        "the runtime limits of {policy} cannot be shared with this configuration: {why}; or remove \
         the limits first"
    )]
    Unshareable {
        /// The name of the policy.
        policy: String,
        /// The reason, and what to write.
        why: String,
    },
}

impl CompileError {
    /// Returns the one of `candidates`, runtime limits, that caused the error: the youngest if none
    /// can be singled out.
    pub fn limit_to_deactivate(
        &self,
        intent: &Intent,
        candidates: &BTreeSet<Target>,
    ) -> Option<Target> {
        let mut candidates = candidates
            .iter()
            .filter_map(|target| Some((target, intent.limits_of(*target)?)));
        let found = match self {
            Self::UnknownClass { policy, .. }
            | Self::Unshareable { policy, .. }
            | Self::TooManyLimits { policy, .. } => {
                candidates.find(|(target, _)| target.policy_name() == *policy)
            }
            Self::TooManyPolicies(_) | Self::TooManyClasses(_) | Self::NoRoom(_) => {
                candidates.max_by_key(|(_, row)| row.entry.since)
            }
        };
        found.map(|(target, _)| *target)
    }
}

/// A table that is pinned: its sets, and the policies that have regions in it.
pub struct ExistingTable {
    /// The sets of each family.
    pub sets: u32,
    /// The policies by index.
    pub policies: BTreeMap<u32, Policy>,
}

/// The current contents of the datapath.
pub struct CurrentTables<'a> {
    /// The policies by index.
    pub policies: &'a BTreeMap<u32, Policy>,
    /// Retired policies: no entry names them, but their state remains.
    pub retired: &'a BTreeMap<u32, Policy>,
    /// The arrays by which classes are looked up.
    pub classes: &'a ClassTables,
    /// Settings for all packets.
    pub settings: Settings,
    /// The sets of the table, where the store is `compact`.
    pub sets: Option<u32>,
    /// Scopes to be moved to larger regions.
    pub moving: BTreeSet<u32>,
    /// The time from which new rates of token buckets apply.
    pub now: Instant,
}

/// The temporary parts of a `compact` table.
#[derive(Clone, Debug, Default)]
pub struct Unsettled {
    /// The scopes that have small regions until others have retired.
    pub small: BTreeSet<u32>,
    /// The policies that have retired, by index, and keep what was used until there is no room.
    pub retired: BTreeMap<u32, Policy>,
}

/// Policies that may have retired and keep their state.
const RETIRED_MAX: usize = 64;

/// Assigns an index to each wanted policy and a number to each class, and drops all others. `cpus`
/// share the limits of the node.
///
/// # Errors
///
/// If no index or number is free, there is no room, or a limit counts an unknown class.
pub fn compile_policies(
    policies: &mut Policies,
    classes: &mut ClassNumbers,
    intent: &Intent,
    held: &CurrentTables<'_>,
    cpus: u32,
) -> Result<Unsettled, CompileError> {
    let wanted = intent.policies();
    let actions = intent.config.classes.actions();
    let mut counted: BTreeSet<Class> = actions.map(|(_, class, _)| class).collect();
    for policy in &wanted {
        if policy.limits.len() > LIMITS_MAX {
            return Err(CompileError::TooManyLimits {
                policy: policy.name.clone(),
                count: policy.limits.len(),
            });
        }
        for limit in policy.all_limits() {
            let selected = select(limit, &intent.config.classes);
            let unknown = |UnknownClass { name }| CompileError::UnknownClass {
                policy: policy.name.clone(),
                class: name,
            };
            if let Some(Selected::Class(class)) = selected.map_err(unknown)? {
                counted.insert(class);
            }
            require_shareable(&policy.name, limit, &intent.config)?;
        }
    }
    if let Some(challenge) = &intent.config.challenge {
        counted.extend(challenge.classes(&intent.config.classes));
    }
    classes.assign(counted, held.classes)?;
    let held_node = held.settings.node_policy();
    let compiler = Compiler {
        catalogue: &intent.config.classes,
        numbers: classes,
        held_node: held_node.and_then(|index| held.policies.get(&index)),
        cpus,
        nodes: nodes(&intent.config),
        source: &intent.config.source,
    };
    let mut compiled: Vec<Named> = wanted
        .iter()
        .zip(states(&wanted, &intent.config.classes))
        .map(|(policy, state)| compiler.compile(policy, state))
        .collect();
    let mut used = Cow::Borrowed(held.policies);
    if !held.retired.is_empty() {
        used.to_mut().extend(held.retired);
    }
    let in_datapath = Used::new(&used);
    policies.keep_clocks(&in_datapath);
    for named in &mut compiled {
        named.policy = policies.with_clocks(&named.policy, &in_datapath, held.now);
        if let Some(further) = &mut named.further {
            further.policy = policies.with_clocks(&further.policy, &in_datapath, held.now);
        }
    }
    share_words(&mut compiled);
    destination_slots::give(&mut compiled, &used)?;
    let mut unsettled = match held.sets {
        None => Unsettled {
            small: BTreeSet::new(),
            retired: still_retired(held, &compiled),
        },
        Some(sets) => place(sets, held, &wanted, &mut compiled, intent)?,
    };
    for named in &mut compiled {
        let terms = terms(&named.policy, &named.limits);
        named.policy = named.policy.on_terms(terms);
    }
    // Policies of established connections first, because the others contain their indices.
    let mut compiled: Vec<_> = wanted.iter().zip(compiled).collect();
    compiled.sort_by_key(|(policy, _)| policy.role != Role::Established);
    for (policy, mut named) in compiled {
        let established = policy.established.as_ref();
        if let Some(established) = established.and_then(|name| policies.get(name)) {
            named.policy = named.policy.with_established(established.index);
        }
        policies.assign(&policy.name, named, &in_datapath)?;
    }
    let names: HashSet<&str> = wanted.iter().map(|policy| policy.name.as_str()).collect();
    policies.retain(|name| names.contains(name));
    retire(held, policies, &mut unsettled.retired);
    Ok(unsettled)
}

/// Lets policies of one state read the words of each other.
fn share_words(compiled: &mut [Named]) {
    let mut by_scope: BTreeMap<u32, Policy> = BTreeMap::new();
    let parts = compiled.iter().flat_map(Named::parts);
    for part in parts.filter(|part| part.policy.has_clock()) {
        let all = by_scope.entry(part.policy.scope()).or_insert(*part.policy);
        *all = all.reading(part.policy);
    }
    for named in compiled {
        let further = named.further.as_mut().map(|it| &mut it.policy);
        for policy in iter::once(&mut named.policy).chain(further) {
            if let Some(all) = by_scope.get(&policy.scope()) {
                *policy = policy.reading(all);
            }
        }
    }
}

/// The policies that have retired and whose limits did not come back.
fn still_retired(held: &CurrentTables<'_>, compiled: &[Named]) -> BTreeMap<u32, Policy> {
    let parts = compiled.iter().flat_map(Named::parts);
    let scopes: BTreeSet<u32> = parts.map(|part| part.policy.scope()).collect();
    let retired = held.retired.iter();
    let retired = retired.filter(|(_, policy)| !scopes.contains(&policy.scope()));
    retired.map(|(index, policy)| (*index, *policy)).collect()
}

/// Returns the names of the policies whose state each of `wanted` uses: its own, that of its base,
/// or for runtime limits that of the policy around it. So usage is kept when sources get their own
/// limits, and when these are removed.
fn states<'a>(wanted: &'a [WantedPolicy<'_>], classes: &Catalogue) -> Vec<&'a str> {
    let by_name: HashMap<&str, &WantedPolicy<'_>> = wanted
        .iter()
        .map(|policy| (policy.name.as_str(), policy))
        .collect();
    let next = |policy: &WantedPolicy<'_>| {
        let find = |name: &String| by_name.get(name.as_str()).copied();
        let around = policy.around.as_ref().and_then(find);
        let around = around.filter(|around| shares_state(policy, around, classes));
        policy.base.as_ref().and_then(find).or(around)
    };
    let states = wanted.iter().map(|policy| {
        let bases = iter::successors(Some(policy), |policy| next(policy));
        bases.last().unwrap_or(policy).name.as_str()
    });
    states.collect()
}

/// Adds the policies that retire with this change: those with regions in a table, and those with
/// their own clock. Also those of destinations and interfaces, whose words have a slot.
fn retire(held: &CurrentTables<'_>, policies: &Policies, retired: &mut BTreeMap<u32, Policy>) {
    let live = policies.by_index();
    let mut scopes: BTreeSet<u32> = live
        .values()
        .chain(retired.values())
        .map(Policy::scope)
        .collect();
    let is_kept = |policy: &Policy| match held.sets {
        _ if policy.has_given_slot() => true,
        Some(sets) => policy.limits().any(|limit| !limit.is_log()) && is_placed(policy, sets),
        None => policy.has_clock(),
    };
    for (index, policy) in held.policies {
        if !live.contains_key(index) && is_kept(policy) && scopes.insert(policy.scope()) {
            retired.insert(*index, *policy);
        }
    }
    while retired.len() > RETIRED_MAX {
        let slot = retired.iter().find(|(_, policy)| policy.has_given_slot());
        match slot.map(|(index, _)| *index) {
            Some(index) => retired.remove(&index),
            None => retired.pop_first().map(|(_, policy)| policy),
        };
    }
}

/// Gives the limits of all policies but the node's their regions.
fn place(
    sets: u32,
    held: &CurrentTables<'_>,
    wanted: &[WantedPolicy<'_>],
    compiled: &mut [Named],
    intent: &Intent,
) -> Result<Unsettled, NoRoom> {
    let parts = compiled.iter().flat_map(Named::parts);
    let scopes = parts.map(|part| part.policy.scope()).collect();
    let regions = Regions::held(sets, held.policies.values(), held.retired, &scopes);
    let mut parts = Vec::new();
    for (policy, named) in wanted.iter().zip(compiled.iter_mut()) {
        if !policy.role.is_total() {
            let sources = sources_of(policy, intent);
            parts.push((&*policy.name, &mut named.policy, sources));
        }
        if let Some(further) = &mut named.further {
            parts.push((&*policy.name, &mut further.policy, limited_sources(intent)));
        }
    }
    let (small, mut retired) = regions.place_all(&mut parts, &held.moving)?.into_parts();
    let totals = still_retired(held, compiled).into_iter();
    retired.extend(totals.filter(|(_, policy)| policy.has_given_slot()));
    Ok(Unsettled { small, retired })
}

/// Returns the number of sets of a table that needs `wanted`, and has those of `held`. It keeps its
/// size if everything intended fits into it, it was not made for fewer sources, and it is not far
/// too large. A table of another size starts empty.
pub fn sets_beside(intent: &Intent, wanted: u32, held: &ExistingTable) -> u32 {
    let (mut policies, mut classes) = Default::default();
    let mut compile = |before: &BTreeMap<u32, Policy>, unsettled: Unsettled| {
        let beside = CurrentTables {
            policies: before,
            retired: &unsettled.retired,
            classes: &ClassTables::default(),
            settings: Settings::default(),
            sets: Some(held.sets),
            moving: unsettled.small,
            now: Instant::default(),
        };
        let unsettled = compile_policies(&mut policies, &mut classes, intent, &beside, 1)?;
        Ok::<_, CompileError>((policies.by_index(), unsettled))
    };
    // Compiled once next to the policies in force, and once as if those had retired.
    let answer = compile(&held.policies, Unsettled::default())
        .and_then(|(before, unsettled)| compile(&before, unsettled));
    let placed = held.policies.values();
    let placed = placed.filter(|policy| is_placed(policy, held.sets));
    let limits = placed.clone().flat_map(Policy::limits);
    let largest = limits.map(|limit| limit.region().sets()).max();
    let kept: BTreeSet<u32> = placed.map(Policy::scope).collect();
    let is_whole = intent.policies().iter().all(|wanted| {
        policies.get(&wanted.name).is_none_or(|named| {
            // A retired policy may keep a small region if others need the room. If no region of a
            // table is large enough, the capacity was different before.
            let is_whole = |policy: &Policy, sources| {
                let is_kept = kept.contains(&policy.scope());
                is_kept && largest >= Some(sets_for(sources)) || is_whole(policy, sources)
            };
            let further = named.further.as_ref();
            (wanted.role.is_total() || is_whole(&named.policy, sources_of(wanted, intent)))
                && further.is_none_or(|it| is_whole(&it.policy, limited_sources(intent)))
        })
    });
    if answer.is_ok() && is_whole && held.sets / 2 <= wanted {
        held.sets
    } else {
        // A table of the same size would be adopted.
        wanted + u32::from(wanted == held.sets)
    }
}

/// Compiles the rules of every prefix in the intent, with packets counted in these slots.
pub fn compile_rules(policies: &Policies, intent: &Intent, slots: &CounterSlots) -> Rules {
    let policy = |name: &str| counted_policy(policies, slots, name);
    let destinations = policies.of_destinations();
    let destinations =
        destinations.map(|(prefix, _, named)| (prefix, Statement::Destination(named.index)));
    let statements = intent.statements(slots, policy).into_iter();
    let actions = intent.action_statements();
    let mut rules = Rules::of(statements.chain(destinations).chain(actions));
    for prefix in intent.forced() {
        rules.set_forced_ban(prefix, intent.forced_ban(prefix, slots));
    }
    rules.set_protected(intent.config.protected.iter().copied().collect());
    rules
}

/// Compiles the rules of one prefix.
pub fn compile_prefix(
    rules: &mut Rules,
    policies: &Policies,
    intent: &Intent,
    slots: &CounterSlots,
    prefix: Prefix,
) {
    let policy = intent.policy_name(prefix);
    let policy = policy.and_then(|name| counted_policy(policies, slots, &name));
    let allowed = intent.allow_of(prefix, slots);
    rules.set(prefix, allowed, intent.longest_ban(prefix, slots), policy);
    rules.set_forced_ban(prefix, intent.forced_ban(prefix, slots));
    rules.set_action(prefix, intent.action_of(prefix));
    let destination = policies.get(&destination_name(prefix));
    rules.set_destination(prefix, destination.map(|named| named.index));
}

fn counted_policy(policies: &Policies, slots: &CounterSlots, name: &str) -> Option<CountedPolicy> {
    Some((policies.get(name)?.index, slots.slot(Owner::Policy(name))))
}

/// The index of the policy of sources without a policy of their own.
fn default_policy(policies: &Policies) -> u32 {
    let default = policies.get(DEFAULT).map(|named| named.index);
    default.unwrap_or_default()
}

/// The settings of an intent whose policies are compiled, and its challenge.
fn settings(policies: &Policies, intent: &Intent, challenge: &challenge::Rules) -> Settings {
    let mut settings = Settings::new(default_policy(policies), intent.config.observe);
    let limits = policies.iter().flat_map(|(_, named)| &named.limits);
    let classes = &intent.config.classes;
    let counted = limits.filter_map(|limit| select(limit, classes).ok()?);
    let acted_on = classes
        .actions()
        .map(|(_, class, _)| Selected::Class(class));
    for selected in counted.chain(acted_on) {
        settings = settings.with_classes();
        if let Selected::Class(class) = selected
            && class.asks_headers()
        {
            let asks = settings.asks_destination() || class.asks_destination();
            settings = settings.asking_headers(true).asking_destination(asks);
        }
    }
    let mut families = IpFamily::ALL.into_iter();
    if families.any(|family| !policies.of_prefixes(family).is_empty()) {
        settings = settings.with_aggregates();
    }
    if policies.iter().any(|(_, named)| named.further.is_some()) {
        settings = settings.with_further();
    }
    if policies
        .iter()
        .any(|(_, named)| named.policy.is_of_cluster())
    {
        settings = settings.with_cluster();
    }
    if policies.of_destinations().next().is_some() {
        settings = settings.with_destinations();
    }
    if !interfaces(policies, &intent.config).is_empty() {
        settings = settings.with_interfaces();
    }
    if policies
        .iter()
        .any(|(_, named)| named.role == Role::Established)
    {
        settings = settings.with_established();
    }
    if policies.iter().any(|(_, named)| named.ban.is_some()) {
        settings = settings.with_policy_bans();
    }
    if !intent.config.attacks.is_empty() {
        settings = settings.sampling(true);
    }
    if let Some(new_sources) = &intent.config.new_sources {
        settings = settings.with_new_sources(new_sources.over_budget);
    }
    if let Some(node) = policies.get(NODE) {
        settings = settings.with_node(node.index);
    }
    challenge.with_challenge_flags(settings.with_challenge(intent.config.challenge.is_some()))
}

/// Compiles the tables other than the lists, for a machine with `cpus` CPUs that receive packets.
pub fn tables(policies: &Policies, classes: &ClassNumbers, intent: &Intent, cpus: u32) -> Tables {
    let challenge = challenge(&intent.config, classes, cpus);
    Tables {
        policies: policies.by_index(),
        classes: classes.tables(),
        pass_all_until: Instant::default(),
        ban_budgets: ban_budgets(&intent.config),
        switched: Switched {
            aggregates: IpFamily::ALL.map(|family| aggregates(policies, family)),
            new_sources: new_sources(&intent.config, cpus),
            tunnels: intent.config.source.tunnels,
            challenge,
            interfaces: interfaces(policies, &intent.config),
        },
        settings: settings(policies, intent, &challenge),
        ..Tables::default()
    }
}

/// The number of nodes by which shared limits are divided.
pub fn nodes(config: &Config) -> u64 {
    let cluster = config.cluster.as_ref();
    cluster.map_or(1, |cluster| cluster.nodes.max(1).into())
}

/// Refuses a limit that nodes are to share and cannot. A host that leaves its cluster has it alone
/// until it ends there.
fn require_shareable(policy: &str, limit: &LimitSpec, config: &Config) -> Result<(), CompileError> {
    let Some(cluster) = &config.cluster else {
        return Ok(());
    };
    let problem = sharing::problem(limit, cluster.nodes);
    problem.map_or(Ok(()), |problem| {
        Err(CompileError::Unshareable {
            policy: policy.to_owned(),
            why: format!("{}; {}", problem.message, problem.hint),
        })
    })
}

/// Returns the rules of interfaces, by name.
fn interfaces(policies: &Policies, config: &Config) -> BTreeMap<String, InterfaceRule> {
    let rules = config.interfaces.iter().map(|interface| {
        let policy = interface.policy.as_deref().filter(|name| *name != DEFAULT);
        let policy = policy.and_then(|name| policies.get(name));
        let index = |named: Option<&Named>| named.map(|named| named.index);
        let node = policies.get(&interface_name(&interface.name));
        let rule = InterfaceRule::new(index(policy), index(node), interface.observe);
        (interface.name.clone(), rule)
    });
    rules
        .filter(|(_, rule)| *rule != InterfaceRule::default())
        .collect()
}

/// The budgets of bans per minute.
pub const fn ban_budgets(config: &Config) -> BanBudgets {
    BanBudgets {
        established: BanBudget::per_minute(config.bans_per_minute),
        forgeable: BanBudget::per_minute(config.forgeable_per_minute),
    }
}

fn new_sources(config: &Config, cpus: u32) -> Budget {
    let new_sources = config.new_sources.as_ref();
    new_sources.map_or_else(Budget::default, |budget| budget.compile(cpus))
}

fn challenge(config: &Config, classes: &ClassNumbers, cpus: u32) -> challenge::Rules {
    let challenge = config.challenge.as_ref();
    challenge.map_or_else(challenge::Rules::default, |challenge| {
        let number = |class: &Class| classes.number_of(class);
        let rules = challenge.compile(cpus, &config.classes, number);
        rules.preferring_verified(config.node.prefers_verified)
    })
}

fn aggregates(policies: &Policies, family: IpFamily) -> Aggregates {
    let levels = policies.of_prefixes(family).into_iter();
    let levels: Vec<Aggregate> = levels
        .map(|(prefix, _, named)| Aggregate {
            prefix,
            policy: u16::try_from(named.index).expect("below POLICIES_MAX"),
        })
        .collect();
    Aggregates::new(&levels).expect("the configuration refuses more prefixes")
}

/// The list that was read from a file, with entries that never end.
fn lasting(config: &ListConfig, reading: Reading) -> List {
    let mut entries = reading.entries;
    for entry in &mut entries {
        entry.until = None;
    }
    merge(&mut entries);
    let entries = entries.into_iter().map(|entry| ListEntry {
        prefix: entry.prefix,
        until: FOREVER,
        reason: entry.reason,
    });
    let file = Some(config.file.clone());
    List::new(config.action, file, Timestamp::UNIX_EPOCH, "config".into())
        .with_entries(entries.collect(), reading.reasons)
}

/// The datapath of a configuration without runtime changes, as used by `rlctl simulate`.
pub struct Compiled {
    intent: Intent,
    policies: Policies,
    classes: ClassNumbers,
    rules: Rules,
    /// The sets of the table, where the store is `compact`.
    sets: Option<u32>,
}

impl Compiled {
    /// Compiles a configuration, with what was read of its lists, as the daemon does, for a machine
    /// with one CPU. The entries of lists hold for all of the time.
    ///
    /// # Errors
    ///
    /// When it has more policies than the datapath holds.
    pub fn new(config: Config, lists: Vec<(String, Reading)>) -> Result<Self, CompileError> {
        let mut intent = Intent::new(config);
        for (name, reading) in lists {
            if let Some(list) = intent.config.lists.get(&name) {
                let list = Some(Arc::new(lasting(list, reading)));
                intent.edit(Edit::List(name.into(), list, [].into()));
            }
        }
        let mut policies = Policies::default();
        let mut classes = ClassNumbers::default();
        let is_compact = intent.config.source.store == StateStore::Compact;
        let sets = is_compact.then(|| table_sets(&intent));
        let nothing = CurrentTables {
            policies: &BTreeMap::new(),
            retired: &BTreeMap::new(),
            classes: &ClassTables::default(),
            settings: Settings::default(),
            sets,
            moving: BTreeSet::new(),
            now: Instant::default(),
        };
        compile_policies(&mut policies, &mut classes, &intent, &nothing, 1)?;
        let rules = compile_rules(&policies, &intent, &CounterSlots::default());
        Ok(Self {
            intent,
            policies,
            classes,
            rules,
            sets,
        })
    }

    /// The ban rule of the policy whose state is in this scope.
    pub fn ban_of(&self, scope: u32) -> Option<BanSpec> {
        self.policies
            .banning(scope)
            .and_then(|(_, named)| named.ban)
    }

    /// Whether the configuration requests the coarse clock. An automatically chosen one does not
    /// exceed the promised error.
    pub fn has_coarse_clock(&self) -> bool {
        self.config().clock == ClockWish::Coarse
    }

    /// Returns whether automatic findings about a prefix are ignored: it is allowed, or overlaps
    /// `[protected]`.
    pub fn is_exempt(&self, prefix: Prefix) -> bool {
        let mut protected = self.intent.config.protected.iter();
        protected.any(|own| own.covers(prefix) || prefix.covers(*own))
            || prefix
                .supernets()
                .any(|wider| self.intent.is_allowed(wider))
    }

    /// The compiled configuration.
    pub fn config(&self) -> &Config {
        &self.intent.config
    }

    /// Whether a policy bans sources with connections alone.
    pub fn bans_connected(&self) -> bool {
        let mut policies = self.policies.iter();
        policies.any(|(_, named)| named.ban.is_some_and(|ban| !ban.compile().bans_forgeable()))
    }

    /// The tables, in memory, of which no source is known yet, for packets of an interface that has
    /// nothing of its own.
    pub fn memory_tables(&self) -> MemoryTables {
        self.memory_tables_on(None)
    }

    /// Returns the tables for packets of the named interface.
    pub fn memory_tables_on(&self, interface: Option<&str>) -> MemoryTables {
        let source = &self.config().source;
        let masks = (source.mask(), source.mask());
        let rules = interfaces(&self.policies, self.config());
        let rule = interface.and_then(|name| rules.get(name));
        let challenge = challenge(self.config(), &self.classes, 1);
        let settings = settings(&self.policies, &self.intent, &challenge);
        let settings = settings.on(rule.copied().unwrap_or_default());
        let tables = MemoryTables::new(settings, self.policies_in_order(), masks);
        let tables = tables.with_tunnels(source.tunnels);
        let mut tables = match self.sets {
            Some(sets) => tables.compact(sets, SEEDS),
            None => tables.lru(source.capacity),
        };
        tables.classes = self.classes.tables();
        let [ipv4, ipv6] = IpFamily::ALL.map(|family| aggregates(&self.policies, family));
        tables.set_aggregates(ipv4, ipv6);
        tables.ban_budgets = ban_budgets(self.config());
        tables.new_sources = new_sources(self.config(), 1);
        tables.set_challenge(challenge, challenge::Key::default());
        for (prefix, entry) in self.rules.entries() {
            tables.set_list_entry(prefix, entry);
        }
        tables
    }

    /// The name and limits of the policy that packets of `address` are judged by.
    ///
    /// ```
    /// use ratelimit_core::{
    ///     compile::Compiled,
    ///     config::{File, parse},
    /// };
    ///
    /// let text = r#"
    ///     [[interface]]
    ///     name = "eth0"
    ///     [policy.default]
    ///     limits = []
    ///     [policy.partner]
    ///     sources = ["203.0.113.0/24"]
    ///     limits = [{ packets = 50_000, per = "1s" }]
    /// "#;
    /// let file = File { path: "config.toml".into(), text: text.to_owned() };
    /// let compiled = Compiled::new(parse(&[file])?.0, Vec::new())?;
    /// let policy = |address: &str| compiled.policy_of(address.parse().unwrap());
    /// let name = |address: &str| policy(address).map(|(name, _)| name);
    /// assert_eq!(name("203.0.113.7"), Some("partner"));
    /// assert_eq!(name("192.0.2.1"), Some("default"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy_of(&self, address: IpAddr) -> Option<(&str, &Named)> {
        let entry = self.rules.longest_match(address);
        let index = entry.and_then(|(_, entry)| entry.policy());
        let index = index.unwrap_or_else(|| default_policy(&self.policies));
        self.policies.at(index)
    }

    /// The policies of the prefixes around `address`, the narrowest first, with those prefixes.
    pub fn prefixes_around(&self, address: IpAddr) -> impl Iterator<Item = (Prefix, &str, &Named)> {
        let levels = self.policies.of_prefixes(IpFamily::of(address)).into_iter();
        levels.filter_map(move |(_, name, named)| {
            Some((named.role.prefix_around(address)?, name, named))
        })
    }

    /// The name and limits of the policy of the node.
    pub fn node_policy(&self) -> Option<(&str, &Named)> {
        Some((NODE, self.policies.get(NODE)?))
    }

    /// The name and limits of the policy of the only destination that has one.
    pub fn only_destination(&self) -> Option<(&str, &Named)> {
        self.policies.only_destination()
    }

    /// The policies at their indices; empty ones between them.
    fn policies_in_order(&self) -> Vec<Policy> {
        let by_index = self.policies.by_index();
        let count = by_index.last_key_value().map_or(0, |(index, _)| index + 1);
        (0..count)
            .map(|index| by_index.get(&index).copied().unwrap_or_default())
            .collect()
    }
}
