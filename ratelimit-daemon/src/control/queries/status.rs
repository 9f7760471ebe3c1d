//! `rlctl status`: the state of the daemon.

use std::sync::Arc;

use ratelimit_core::{
    api::{
        ClassView, DamagedDatabase, DatabaseStatus, DetectionStatus, EntryCounter, InactiveLimits,
        MapStatus, Status, Unenforced,
    },
    class::{Action, Class},
    config::{Config, tunnels},
    detection::{Answer, Kind, Rule},
    intent::Edit,
    ip_family::IpFamily,
    policies::{DEFAULT, NODE, Named, Policies, Role},
};

use super::{allows::allows, limited, lists::lists, new_sources};
use crate::{
    clock,
    control::{
        controller::{
            Controller,
            handle::{Handle, Unanswered},
            tick::LookAtLinks,
        },
        feeds::challenge,
        persistence::store::Found,
        reports::troubles::PINS,
        state::State,
    },
};

/// Returns the state of the daemon and its datapath. Only root sees quotes of configuration files.
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

/// Returns what is not enforced, the trouble with the pins, and whether pass-all is on.
pub fn health(controller: &Controller) -> (Vec<Unenforced>, Option<String>, bool) {
    let pins = controller
        .state
        .reports
        .troubles
        .of(PINS)
        .map(str::to_owned);
    let is_open = controller.feeds.pass_all.status().is_some();
    (controller.unenforced(), pins, is_open)
}

/// Returns the policies if the slots of a `compact` table must be counted.
fn slot_policies(controller: &Controller) -> Option<Arc<Policies>> {
    let is_compact = is_compact(&controller.state);
    is_compact.then(|| controller.policies())
}

/// Returns the status with the counted slots.
fn whole_status(controller: &Controller, is_root: bool, slots: Option<[u64; 2]>) -> Status {
    let refused = controller.about.reloads.error.as_ref();
    let error = refused.map(|it| if is_root { it.in_full() } else { &it.error });
    Status {
        config_error: error.map(str::to_owned),
        ..with_slots(controller, slots)
    }
}

/// Returns the state of the daemon and its datapath, with the used slots of a `compact` table for
/// IPv4 and IPv6, if they were counted.
pub(crate) fn with_slots(controller: &Controller, slots: Option<[u64; 2]>) -> Status {
    let config = &controller.state.intent.config;
    Status {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        started: controller.about.started,
        config_files: config
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect(),
        config_applied: controller.about.reloads.applied,
        config_error: controller
            .about
            .reloads
            .error
            .as_ref()
            .map(|it| it.error.clone()),
        observe: config.observe,
        clock: controller.state.clock(),
        interfaces: controller.interfaces.links.statuses(),
        maps: maps(&controller.state, slots),
        bans: count_bans(&controller.state),
        automatic_bans: controller.state.intent.automatic_bans(),
        detection: Some(detection(config)),
        attacks: controller.feeds.attacks.views(),
        limited: limited::count(&controller.state),
        allows: allows(&controller.state).len(),
        lists: lists(controller),
        policies: controller.state.compiled.policies.of_sources(),
        classes: class_views(&controller.state),
        aggregates: aggregate_lengths(&controller.state),
        tunnels: tunnels::words(controller.state.intent.config.source.tunnels),
        destinations: controller.state.compiled.policies.of_destinations().count(),
        node: controller.state.compiled.policies.get(NODE).is_some(),
        new_sources: new_sources::new_sources(&controller.state),
        challenge: challenge::status::challenge(&controller.state, &controller.feeds.verified),
        crowdsec: controller.feeds.crowdsec.status(&controller.state),
        cluster: controller.feeds.cluster.status(&controller.state),
        protected: controller.state.protection.prefixes().len(),
        pass_all: controller.feeds.pass_all.status().cloned(),
        attempt: controller.feeds.trials.attempt(),
        database: database(&controller.state),
        history: controller.about.traffic.clone(),
        troubles: controller.state.reports.troubles.views(),
    }
}

/// Returns the packets that matched the default policy and the configured ones.
pub(super) fn configured_policies(state: &State) -> impl Iterator<Item = (&str, EntryCounter)> {
    let configured = state.intent.config.policies.keys().map(String::as_str);
    let names = std::iter::once(DEFAULT).chain(configured);
    names.map(|name| (name, state.policy_counter(name)))
}

/// Counts the bans that have not ended.
fn count_bans(state: &State) -> usize {
    let ended = state.intent.ended(clock::now());
    let ended = ended.iter().filter(|edit| matches!(edit, Edit::Ban(..)));
    state.intent.bans().len().saturating_sub(ended.count())
}

/// Returns the detected kinds of attacks, by response.
fn detection(config: &Config) -> DetectionStatus {
    let rules = config.attack_rules().into_iter();
    let (reported, answered): (Vec<_>, Vec<_>) =
        rules.partition(|(_, rule)| rule.answer == Answer::Observe);
    let kinds = |rules: Vec<(Kind, Rule)>| rules.into_iter().map(|(kind, _)| kind).collect();
    DetectionStatus {
        reported: kinds(reported),
        answered: kinds(answered),
    }
}

fn database(state: &State) -> DatabaseStatus {
    let damaged = match state.kept.store.found() {
        Found::Damaged(damage) => Some(DamagedDatabase {
            file: damage.file.display().to_string(),
            error: damage.error.clone(),
        }),
        Found::Sound | Found::Nothing => None,
    };
    let inactive = state.intent.inactive_limits();
    let inactive = inactive.map(|(target, why)| InactiveLimits {
        policy: target.policy_name(),
        error: why.to_owned(),
    });
    DatabaseStatus {
        damaged,
        aside: state.kept.store.count_damaged(),
        inactive: inactive.collect(),
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
    let length = |(length, _, named): (u8, _, &Named)| {
        let is_ipv6 = matches!(named.role, Role::Prefixes(IpFamily::V6, _));
        format!("{}/{length}", if is_ipv6 { "ipv6" } else { "ipv4" })
    };
    policies.map(length).collect()
}

pub(super) fn is_compact(state: &State) -> bool {
    state.enforcer.datapath().sources.table_sets().is_some()
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
