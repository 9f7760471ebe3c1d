//! How the daemon is: its status, and what the metrics are made of.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_common::detected::Tally;
use ratelimit_core::{
    api::{EntryCounter, Refused, Status},
    config::inner,
    policies::{NODE, Policies},
};

use super::compiled_policies;
use crate::{
    control::{
        controller::tick::LookAtLinks,
        controller::{
            Controller, Reloads, Unkept,
            handle::{Handle, Unanswered},
        },
        enforcement::list_room::Filling,
        feeds::{challenge, detected::Detections},
        persistence::store::Commits,
        queries::{
            limited, lists, new_sources, status,
            views::{allows, counters},
        },
        reports::workload::{self, Workload},
        sources::scanner::Sources,
        state::reconcile::Reconciliation,
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
    pub fn look(workload: &Workload) -> Self {
        Self {
            workload: workload.seen(),
            process: Process::this(),
        }
    }
}

/// The state of the daemon and its datapath. Files of the configuration are quoted for those who may read them.
pub async fn status(controller: &Handle, is_root: bool) -> Result<Status, Unanswered> {
    controller.call(LookAtLinks).await?;
    let slots = match controller.ask(slot_policies).await? {
        Some(policies) => {
            let count = controller.scan(move |scanner| scanner.count_slots(&policies));
            count.await?.ok()
        }
        None => None,
    };
    controller
        .ask(move |it| whole_status(it, is_root, slots))
        .await
}

/// How many entries the maps have that only a scan can count, by their names: nothing where they cannot be read.
pub async fn fill(controller: &Handle) -> Result<Vec<(&'static str, u64)>, Unanswered> {
    let policies = controller.ask(compiled_policies).await?;
    let fill = controller.scan(move |scanner| scanner.fill(&policies));
    Ok(fill.await?.unwrap_or_default())
}

/// What the metrics are made of. Refused is what cannot be read.
pub async fn scrape(controller: &Handle) -> Result<Result<Snapshot, Refused>, Unanswered> {
    // Before this waits for its turn too.
    let beside = Beside::look(controller.workload());
    controller.call(LookAtLinks).await?;
    let policies = controller.ask(compiled_policies).await?;
    let count = controller.scan(move |scanner| scanner.count_sources(&policies));
    match count.await? {
        Ok(sources) => {
            let snapshot = move |it: &Controller| metrics_snapshot(it, sources, beside);
            controller.ask(snapshot).await
        }
        Err(error) => Ok(Err(error.into())),
    }
}

/// The policies, where slots of a `compact` table are to be counted.
fn slot_policies(controller: &Controller) -> Option<Arc<Policies>> {
    let is_compact = status::is_compact(&controller.state);
    is_compact.then(|| compiled_policies(controller))
}

/// The status, when the slots were counted.
fn whole_status(controller: &Controller, is_root: bool, slots: Option<[u64; 2]>) -> Status {
    let refused = controller.reloads.error.as_ref();
    let error = refused.map(|it| if is_root { it.in_full() } else { &it.error });
    Status {
        config_error: error.map(str::to_owned),
        ..with_slots(controller, slots)
    }
}

/// The state of the daemon and its datapath, with the slots of a `compact` table that IPv4 and IPv6 use, where they were counted.
pub(crate) fn with_slots(controller: &Controller, slots: Option<[u64; 2]>) -> Status {
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
        maps: status::maps(&controller.state, slots),
        bans: status::count_bans(&controller.state),
        detected_bans: controller.state.intent.detected(),
        detection: Some(status::detection(config)),
        attacks: controller.attacks.views(),
        limited: limited::count(&controller.state),
        allows: allows(&controller.state).len(),
        lists: lists::lists(&controller.state, &controller.list_files),
        policies: controller.state.compiled.policies.of_sources(),
        classes: status::class_views(&controller.state),
        aggregates: status::aggregate_lengths(&controller.state),
        inner: inner::words(controller.state.intent.config.source.inner),
        destinations: controller.state.compiled.policies.of_destinations().count(),
        node: controller.state.compiled.policies.get(NODE).is_some(),
        new_sources: new_sources::new_sources(&controller.state),
        challenge: challenge::status::challenge(&controller.state, &controller.verified),
        crowdsec: controller.crowdsec.status(&controller.state),
        cluster: controller.cluster.status(&controller.state),
        protected: controller.state.protection.prefixes().len(),
        pass_all: controller.pass_all.status().cloned(),
        attempt: controller.trials.attempt(),
        database: status::database(&controller.state),
        history: controller.traffic.clone(),
        troubles: controller.state.troubles.views(),
    }
}

/// What the metrics are made of, when the sources were counted.
pub(crate) fn metrics_snapshot(
    controller: &Controller,
    sources: Sources,
    beside: Beside,
) -> Result<Snapshot, Refused> {
    Ok(Snapshot {
        status: with_slots(
            controller,
            status::is_compact(&controller.state).then_some(sources.held),
        ),
        counters: counters(&controller.state)?,
        policies: status::configured_policies(&controller.state)
            .map(|(name, counter)| (name.to_owned(), counter))
            .collect(),
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
