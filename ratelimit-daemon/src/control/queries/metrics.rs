//! What the metrics are made of.

use std::collections::BTreeMap;

use ratelimit_common::detected::Tally;
use ratelimit_core::{
    api::{EntryCounter, Refused, Status},
    detection::Kind,
};

use super::{stats, status};
use crate::{
    control::{
        controller::{
            Controller, Reloads, Unkept,
            handle::{Handle, Unanswered},
            tick::LookAtLinks,
        },
        enforcement::list_room::Filling,
        feeds::detected::Detections,
        persistence::store::Commits,
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
    pub attacks: BTreeMap<Kind, u64>,
    /// The sources that got a further limit, by the attack.
    pub limited: BTreeMap<Kind, u64>,
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

/// How many entries the maps have that only a scan can count, by their names: nothing where they cannot be read.
pub async fn fill(controller: &Handle) -> Result<Vec<(&'static str, u64)>, Unanswered> {
    let policies = controller.ask(Controller::policies).await?;
    let fill = controller.scan(move |scanner| scanner.fill(&policies));
    Ok(fill.await?.unwrap_or_default())
}

/// What the metrics are made of. Refused is what cannot be read.
pub async fn scrape(controller: &Handle) -> Result<Result<Snapshot, Refused>, Unanswered> {
    // Before this waits for its turn too.
    let beside = Beside::look(controller.workload());
    controller.call(LookAtLinks).await?;
    let policies = controller.ask(Controller::policies).await?;
    let count = controller.scan(move |scanner| scanner.count_sources(&policies));
    match count.await? {
        Ok(sources) => {
            let snapshot = move |it: &Controller| metrics_snapshot(it, sources, beside);
            controller.ask(snapshot).await
        }
        Err(error) => Ok(Err(error.into())),
    }
}

/// What the metrics are made of, when the sources were counted.
pub(crate) fn metrics_snapshot(
    controller: &Controller,
    sources: Sources,
    beside: Beside,
) -> Result<Snapshot, Refused> {
    Ok(Snapshot {
        status: status::with_slots(
            controller,
            status::is_compact(&controller.state).then_some(sources.held),
        ),
        counters: stats::counters(&controller.state)?,
        policies: status::configured_policies(&controller.state)
            .map(|(name, counter)| (name.to_owned(), counter))
            .collect(),
        totals: controller.state.enforcer.datapath().totals()?,
        tally: controller.state.enforcer.datapath().tally()?,
        detections: controller.feeds.detections.clone(),
        attacks: controller.feeds.attacks.found.clone(),
        limited: controller.feeds.attacks.limited.clone(),
        sources,
        reloads: controller.about.reloads.clone(),
        reconciliation: controller.comparisons.reconciliation(&controller.state),
        filling: controller.state.noted.filling,
        commits: controller.state.kept.store.commits().clone(),
        unkept: controller.count_unkept(),
        beside,
    })
}
