//! What the controller is asked, by each verb of `rlctl` that reads and by the tasks of the daemon: functions that change nothing.
//! What takes several questions is in a file of its own.

mod bans;
mod config;
mod diff;
mod status;
mod top;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc};

use ratelimit_core::{
    api::{
        self, Allow, ClusterStatus, Cursor, Event, ExportRequest, ListView, PolicyView,
        ProtectedView, Refused, StatsRow, SuggestRequest, Suggested, Unenforced, WiderLimits,
    },
    config::{Crowdsec, cluster::Cluster},
    detection::Rules,
    origin::Origin,
    policies::Policies,
    prefix::Prefix,
};
use tokio::sync::{broadcast, watch};

use crate::{
    control::{
        configuration::candidate::Measure,
        controller::Controller,
        feeds::cluster::no_cluster,
        lists::{
            export::{self, BanEntry, Export},
            file::ListFile,
        },
        queries::{
            self,
            check::Packet,
            levels, traffic, views,
            watched::{Many, Scanned},
        },
        reports::troubles::PINS,
    },
    datapath,
    traffic_log::Sample,
};

#[cfg(test)]
pub(super) use self::status::{metrics_snapshot, with_slots};
pub use self::{
    bans::{bans, bans_in_parts},
    config::settings,
    diff::diff,
    status::{Beside, Snapshot, fill, scrape, status},
    top::top,
};

/// The allow list.
pub fn allows(controller: &Controller) -> Result<Vec<Allow>, Refused> {
    Ok(views::allows(&controller.state))
}

/// What the detection of attacks looks for.
pub struct AttackRules {
    /// The kinds of attacks.
    pub rules: Rules,
    /// Whether packets are sampled all the time, since the configuration names attacks.
    pub always: bool,
    /// The addresses of this host.
    pub own: Vec<IpAddr>,
}

/// What the detection of attacks looks for at the moment.
pub fn attack_rules(controller: &Controller) -> AttackRules {
    let state = &controller.state;
    AttackRules {
        rules: state.intent.config.attack_rules(),
        always: !state.intent.config.attacks.is_empty(),
        own: views::own_addresses(state),
    }
}

/// The names of interfaces, by their indices.
pub fn interface_names(controller: &Controller) -> BTreeMap<u32, String> {
    controller.state.journal().interfaces().clone()
}

/// What becomes of a packet.
pub fn check(controller: &Controller, packet: Packet) -> Result<api::Check, Refused> {
    let links = &controller.interfaces.links;
    queries::check::check(&controller.state, links, &controller.cluster, packet)
}

/// How the cluster is.
pub fn cluster_state(controller: &Controller) -> Result<ClusterStatus, Refused> {
    let status = controller.cluster.status(&controller.state);
    status.ok_or_else(no_cluster)
}

/// Which cluster is to be joined, and later after each reload.
pub fn cluster_wishes(controller: &Controller) -> watch::Receiver<Option<Cluster>> {
    controller.cluster.wishes()
}

/// Which API of `CrowdSec` is to be followed, and later after each reload.
pub fn crowdsec_wishes(controller: &Controller) -> watch::Receiver<Option<Crowdsec>> {
    controller.crowdsec.wishes()
}

/// Whether the dashboard is served on the listener of the metrics.
pub fn is_dashboard_open(controller: &Controller) -> bool {
    controller.state.intent.config.dashboard
}

/// The file of the token that lets one ban there; `None` where nobody may.
pub fn dashboard_token(controller: &Controller) -> Option<PathBuf> {
    controller.state.intent.config.dashboard_token.clone()
}

/// So many destinations whose limits are fullest.
pub fn fullest_destinations(
    controller: &Controller,
    count: usize,
) -> Result<Vec<WiderLimits>, Refused> {
    levels::fullest_destinations(&controller.state, count)
}

/// So many changes, the last ones.
pub fn changes(controller: &Controller, count: usize) -> Vec<Arc<Event>> {
    controller.state.journal().changes(count)
}

/// The events that are kept, the place behind them, and those that come. Asked in one turn, nothing is reported twice or left out.
pub fn events(
    controller: &Controller,
) -> (Vec<Arc<Event>>, Cursor, broadcast::Receiver<Arc<Event>>) {
    let journal = controller.state.journal();
    (journal.kept(), journal.cursor(), journal.follow())
}

/// What is to be written beside bans.
pub fn export(controller: &Controller, request: &ExportRequest) -> Result<Export, Refused> {
    export::export(&controller.state.intent, request)
}

/// The next bans to be written, behind the last of those before.
pub fn some_bans(controller: &Controller, behind: Option<&(Prefix, Origin)>) -> Vec<BanEntry> {
    export::some_bans(&controller.state.intent, behind)
}

/// The file of the configuration that a reload reads.
pub fn reloaded_file(controller: &Controller) -> Result<PathBuf, Refused> {
    controller.trials.reloaded_file()
}

/// What a configuration on trial is measured by. Files are quoted for root.
pub fn measure_of_trial(controller: &Controller, is_root: bool) -> Result<Measure, Refused> {
    let config = &controller.state.intent.config;
    controller.trials.measure(config, is_root)
}

/// The lists that come back with the configuration before the one on trial.
pub fn returning_lists(controller: &Controller) -> Result<Vec<ListFile>, Refused> {
    let config = &controller.state.intent.config;
    controller.trials.returning_lists(config)
}

/// What is not enforced, what is wrong with the pins, and whether everything passes.
pub fn health(controller: &Controller) -> (Vec<Unenforced>, Option<String>, bool) {
    let pins = controller.state.troubles.of(PINS).map(str::to_owned);
    let is_open = controller.pass_all.status().is_some();
    (controller.unenforced(), pins, is_open)
}

/// All limits.
pub fn limits(controller: &Controller) -> Result<Vec<PolicyView>, Refused> {
    Ok(views::limits(&controller.state))
}

/// The lists.
pub fn lists(controller: &Controller) -> Result<Vec<ListView>, Refused> {
    let list_files = &controller.list_files;
    Ok(queries::lists::lists(&controller.state, list_files))
}

/// The policies as they are compiled.
fn compiled_policies(controller: &Controller) -> Arc<Policies> {
    Arc::clone(&controller.state.compiled.policies)
}

/// What is protected from bans.
pub fn protected_prefixes(controller: &Controller) -> Result<Vec<ProtectedView>, Refused> {
    Ok(views::protected(&controller.state))
}

/// The counters.
pub fn stats(controller: &Controller) -> Result<Vec<StatsRow>, Refused> {
    views::stats(&controller.state)
}

/// Limits that would have refused few.
pub fn suggest(controller: &Controller, request: &SuggestRequest) -> Result<Suggested, Refused> {
    let (state, history) = (&controller.state, &controller.history);
    queries::suggest::suggest(state, history, controller.started, request)
}

/// The counters at this moment, for the history of packets.
pub fn traffic_sample(
    controller: &Controller,
    scanned: Option<Scanned>,
) -> datapath::Result<Sample> {
    let (cluster, attacks) = (&controller.cluster, &controller.attacks);
    traffic::sample(&controller.state, cluster, attacks, scanned)
}

/// The policies and prefixes whose sources are scanned for it.
pub fn scanned_policies(controller: &Controller) -> datapath::Result<Option<Many>> {
    queries::watched::many(&controller.state)
}
