//! Collects the data of the metrics.

use std::collections::BTreeMap;

use ratelimit_common::policy_ban::Tally;
use ratelimit_core::{
    api::{EntryCounter, Refused, Status, UpstreamRoutes},
    detection::Kind,
    keys::Counts,
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
        feeds::policy_bans::PolicyBans,
        persistence::store::Commits,
        reports::workload::{self, Workload},
        sources::scanner::Sources,
        state::reconcile::Reconciliation,
    },
    datapath::{CounterRow, Totals},
    process::Process,
};

/// The data of the metrics.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The daemon and its interfaces.
    pub status: Status,
    /// The counters, with the names of their interfaces.
    pub counters: Vec<(String, CounterRow)>,
    /// Packets that matched the configured policies.
    pub policies: Vec<(String, EntryCounter)>,
    /// Sums over the CPUs.
    pub totals: Totals,
    /// The results of bans by policies.
    pub tally: Tally,
    /// Adopted bans, by policy.
    pub policy_bans: PolicyBans,
    /// Detected attacks, by kind.
    pub attacks: BTreeMap<Kind, u64>,
    /// Sources with a further limit, by attack.
    pub limited: BTreeMap<Kind, u64>,
    /// Sources with state, and evicted sources.
    pub sources: Sources,
    /// The results of reloads.
    pub reloads: Reloads,
    /// Differences between the kernel and the intent.
    pub reconciliation: Reconciliation,
    /// The fill level of the lists.
    pub filling: Filling,
    /// Statistics of database commits.
    pub commits: Commits,
    /// Changes in force that are not saved.
    pub unkept: Unkept,
    /// Counters of key spaces, by name.
    pub keys: Vec<(String, Counts)>,
    /// The routes for a BGP speaker.
    pub upstream: Option<UpstreamRoutes>,
    /// Data that needs no query.
    pub beside: Beside,
}

/// Data that is collected without a query to the controller.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The load of the controller.
    pub workload: workload::Seen,
    /// Resources of the process. `None` if they cannot be read.
    pub process: Option<Process>,
}

impl Beside {
    /// Reads the current values.
    pub fn look(workload: &Workload) -> Self {
        Self {
            workload: workload.seen(),
            process: Process::this(),
        }
    }
}

/// Returns the number of entries of maps that only a scan can count, by name. Empty if they cannot
/// be read.
pub async fn fill(controller: &Handle) -> Result<Vec<(&'static str, u64)>, Unanswered> {
    let policies = controller.ask(Controller::policies).await?;
    let fill = controller.scan(move |scanner| scanner.fill(&policies));
    Ok(fill.await?.unwrap_or_default())
}

/// Collects the data. Fails if something cannot be read.
pub async fn scrape(controller: &Handle) -> Result<Result<Snapshot, Refused>, Unanswered> {
    // Read first, before this query waits as well.
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

/// Collects the data, with the number of sources.
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
        tally: controller.state.enforcer.datapath().policy_bans.tally()?,
        policy_bans: controller.feeds.policy_bans.clone(),
        attacks: controller.feeds.attacks.found.clone(),
        limited: controller.feeds.attacks.limited.clone(),
        sources,
        reloads: controller.about.reloads.clone(),
        reconciliation: controller.comparisons.reconciliation(&controller.state),
        filling: controller.state.noted.filling,
        commits: controller.state.kept.store.commits().clone(),
        unkept: controller.count_unkept(),
        keys: controller.keys.counts(),
        upstream: controller.feeds.upstream.routes(),
        beside,
    })
}
