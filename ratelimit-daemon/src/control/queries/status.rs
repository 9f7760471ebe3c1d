//! How the daemon is: its status, and what the metrics are made of.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_common::detected::Tally;
use ratelimit_core::{
    api::{
        ClassView, ClusterStatus, DamagedDatabase, DatabaseStatus, EntryCounter, MapStatus,
        Refused, Status,
    },
    class::{Action, Class},
    intent::Edit,
    ip_family::IpFamily,
    policies::{DEFAULT, NODE, Named, Role},
};

use super::{
    challenge, lists, new_sources,
    views::{allows, counters},
};
use crate::{
    clock,
    control::{
        commands::LookAtLinks,
        controller::{Controller, Reloads, Unkept},
        feeds::{
            cluster::{Membership, no_cluster},
            detected::Detections,
        },
        handle::{Handle, Unanswered},
        reconcile::Reconciliation,
        reserve::Filling,
        scanner::Sources,
        state::State,
        store::{Commits, Found},
        workload::{self, Workload},
    },
    datapath::{CounterRow, Totals},
    process::Process,
};

/// What the metrics are made of.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The daemon and its interfaces.
    pub status: Status,
    /// The counters, with the names of their interfaces.
    pub counters: Vec<(String, CounterRow)>,
    /// What matched the policies of the configuration.
    pub policies: Vec<(String, EntryCounter)>,
    /// Sums over the CPUs.
    pub totals: Totals,
    /// What became of the sources that policies were to ban.
    pub tally: Tally,
    /// The bans that were adopted, by policy.
    pub detections: Detections,
    /// The attacks that were found, by kind.
    pub attacks: BTreeMap<ratelimit_core::detection::Kind, u64>,
    /// The sources that got a further limit, by the attack.
    pub limited: BTreeMap<ratelimit_core::detection::Kind, u64>,
    /// Sources that have state, and that had to give theirs away.
    pub sources: Sources,
    /// How reloads went.
    pub reloads: Reloads,
    /// How what is enforced stands to what is intended.
    pub reconciliation: Reconciliation,
    /// How lists have filled.
    pub filling: Filling,
    /// How commits of the database went.
    pub commits: Commits,
    /// What holds and is not written down.
    pub unkept: Unkept,
    /// What was seen beside the controller.
    pub beside: Beside,
}

/// What the metrics have that the controller is not asked for.
#[derive(Clone, Debug)]
pub struct Beside {
    /// How the controller keeps up.
    pub workload: workload::Seen,
    /// What the process takes; `None` where that cannot be read.
    pub process: Option<Process>,
}

impl Beside {
    /// How it is at the moment.
    #[must_use]
    pub fn look(workload: &Workload) -> Self {
        Self {
            workload: workload.seen(),
            process: Process::this(),
        }
    }
}

/// The state of the daemon and its datapath. Files of the configuration are quoted for those who may read them.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn status(controller: &Handle, is_root: bool) -> Result<Status, Unanswered> {
    controller.call(LookAtLinks).await?;
    let policies = |controller: &Controller| {
        let is_compact = is_compact(&controller.state);
        is_compact.then(|| Arc::clone(&controller.state.compiled.policies))
    };
    let slots = match controller.ask(policies).await? {
        Some(policies) => {
            let count = controller.scan(move |scanner| scanner.count_slots(&policies));
            count.await?.ok()
        }
        None => None,
    };
    controller
        .ask(move |controller| {
            let refused = controller.reloads.error.as_ref();
            Status {
                config_error: refused
                    .map(|it| if is_root { it.in_full() } else { &it.error }.to_owned()),
                ..with_slots(controller, slots)
            }
        })
        .await
}

/// How many entries the maps have that only a scan can count, by their names: nothing where they cannot be read.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn fill(controller: &Handle) -> Result<Vec<(&'static str, u64)>, Unanswered> {
    let policies = controller.ask(|controller| Arc::clone(&controller.state.compiled.policies));
    let policies = policies.await?;
    let fill = controller.scan(move |scanner| scanner.fill(&policies));
    Ok(fill.await?.unwrap_or_default())
}

/// What the metrics are made of. Refused is what cannot be read.
///
/// # Errors
///
/// When the controller has stopped.
pub async fn scrape(controller: &Handle) -> Result<Result<Snapshot, Refused>, Unanswered> {
    // Before this waits for its turn too.
    let beside = Beside::look(controller.workload());
    controller.call(LookAtLinks).await?;
    let policies = controller.ask(|controller| Arc::clone(&controller.state.compiled.policies));
    let policies = policies.await?;
    let count = controller.scan(move |scanner| scanner.count_sources(&policies));
    match count.await? {
        Ok(sources) => {
            controller
                .ask(move |controller| snapshot(controller, sources, beside))
                .await
        }
        Err(error) => Ok(Err(error.into())),
    }
}

/// How the cluster is.
///
/// # Errors
///
/// When this host is no node.
pub fn cluster(state: &State, cluster: &Membership) -> Result<ClusterStatus, Refused> {
    let status = cluster.status(state);
    status.ok_or_else(no_cluster)
}

/// The state of the daemon and its datapath, but for how many slots of a `compact` table are in use.
#[must_use]
pub fn now(controller: &Controller) -> Status {
    with_slots(controller, None)
}

/// The same with these slots of IPv4 and IPv6.
fn with_slots(controller: &Controller, slots: Option<[u64; 2]>) -> Status {
    let config = &controller.state.intent.config;
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started: controller.started,
        config_files: config
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
        config_applied: controller.reloads.applied,
        config_error: controller.reloads.error.as_ref().map(|it| it.error.clone()),
        observe: config.observe,
        clock: controller.state.clock(),
        interfaces: controller.interfaces.links.statuses(),
        maps: maps(&controller.state, slots),
        bans: count_bans(&controller.state),
        detected_bans: controller.state.intent.detected(),
        attacks: controller.attacks.views(),
        limited: controller.state.intent.limited().len(),
        allows: allows(&controller.state).len(),
        lists: lists::lists(&controller.state, &controller.list_files),
        policies: controller.state.compiled.policies.of_sources(),
        classes: class_views(&controller.state),
        aggregates: aggregate_lengths(&controller.state),
        destinations: controller.state.compiled.policies.of_destinations().count(),
        node: controller.state.compiled.policies.get(NODE).is_some(),
        new_sources: new_sources::new_sources(&controller.state),
        challenge: challenge::challenge(&controller.state),
        crowdsec: controller.crowdsec.status(&controller.state),
        cluster: controller.cluster.status(&controller.state),
        protected: controller.state.protection.prefixes().len(),
        pass_all: controller.pass_all.status().cloned(),
        attempt: controller.trials.attempt(),
        database: database(&controller.state),
        history: controller.traffic.clone(),
        troubles: controller.troubles.views(),
    }
}

/// What the metrics are made of, when the sources were counted.
///
/// # Errors
///
/// When the kernel's tables cannot be read.
pub fn snapshot(
    controller: &Controller,
    sources: Sources,
    beside: Beside,
) -> Result<Snapshot, Refused> {
    Ok(Snapshot {
        status: with_slots(
            controller,
            is_compact(&controller.state).then_some(sources.held),
        ),
        counters: counters(&controller.state)?,
        policies: configured_policies(&controller.state),
        totals: controller.state.enforcer.datapath().totals()?,
        tally: controller.state.enforcer.datapath().tally()?,
        detections: controller.detections.clone(),
        attacks: controller.attacks.found.clone(),
        limited: controller.attacks.limited.clone(),
        sources,
        reloads: controller.reloads.clone(),
        reconciliation: controller.comparisons.reconciliation(&controller.state),
        filling: controller.state.filling,
        commits: controller.state.store.commits().clone(),
        unkept: controller.count_unkept(),
        beside,
    })
}

fn configured_policies(state: &State) -> Vec<(String, EntryCounter)> {
    let configured = state.intent.config.policies.keys().map(String::as_str);
    let names = std::iter::once(DEFAULT).chain(configured);
    names
        .map(|name| (name.to_owned(), state.policy_counter(name)))
        .collect()
}

/// How many bans there are that have not ended.
fn count_bans(state: &State) -> usize {
    let ended = state.intent.ended(clock::now());
    let ended = ended.iter().filter(|edit| matches!(edit, Edit::Ban(..)));
    state.intent.bans().len().saturating_sub(ended.count())
}

fn database(state: &State) -> DatabaseStatus {
    let damaged = match state.store.found() {
        Found::Damaged(damage) => Some(DamagedDatabase {
            file: damage.file.display().to_string(),
            error: damage.error.clone(),
        }),
        Found::Sound | Found::Nothing => None,
    };
    DatabaseStatus {
        damaged,
        aside: state.store.count_aside(),
        suspended: state.intent.suspended_limits(),
    }
}

fn class_views(state: &State) -> Vec<ClassView> {
    let named = state.intent.config.classes.iter();
    let view = |(name, class, action): (&str, Class, Option<Action>)| ClassView {
        name: name.to_owned(),
        class,
        action,
    };
    named.map(view).collect()
}

fn aggregate_lengths(state: &State) -> Vec<String> {
    let policies = IpFamily::ALL.into_iter();
    let policies = policies.flat_map(|family| state.compiled.policies.of_prefixes(family));
    let length = |(length, _, named): (u8, _, &Named)| match named.role {
        Role::Prefixes(IpFamily::V6, _) => format!("ipv6/{length}"),
        _ => format!("ipv4/{length}"),
    };
    policies.map(length).collect()
}

fn is_compact(state: &State) -> bool {
    state.enforcer.datapath().table_sets().is_some()
}

fn maps(state: &State, slots: Option<[u64; 2]>) -> Vec<MapStatus> {
    let [v4, v6] = IpFamily::ALL.map(|family| state.enforcer.count(family));
    let entries = |name: &str| match name {
        "COMPACT_V4" => slots.map(|[v4, _]| v4),
        "COMPACT_V6" => slots.map(|[_, v6]| v6),
        "LISTS_V4" => Some(v4),
        "LISTS_V6" => Some(v6),
        "POLICIES" => Some(state.enforcer.held().policies.len() as u64),
        _ => None,
    };
    let maps = state.enforcer.datapath().maps().into_iter();
    maps.map(|map| MapStatus {
        entries: entries(&map.name),
        ..map
    })
    .collect()
}
