//! How the daemon is, as far as the state knows it.

use ratelimit_core::{
    api::{
        ClassView, DamagedDatabase, DatabaseStatus, DetectionStatus, EntryCounter, MapStatus,
        SuspendedLimits,
    },
    class::{Action, Class},
    config::Config,
    detection::{Answer, Kind, Rule},
    intent::Edit,
    ip_family::IpFamily,
    policies::{DEFAULT, Named, Role},
};

use crate::{
    clock,
    control::{persistence::store::Found, state::State},
};

/// What matched the default policy and those of the configuration.
pub(crate) fn configured_policies(state: &State) -> impl Iterator<Item = (&str, EntryCounter)> {
    let configured = state.intent.config.policies.keys().map(String::as_str);
    let names = std::iter::once(DEFAULT).chain(configured);
    names.map(|name| (name, state.policy_counter(name)))
}

/// How many bans there are that have not ended.
pub(crate) fn count_bans(state: &State) -> usize {
    let ended = state.intent.ended(clock::now());
    let ended = ended.iter().filter(|edit| matches!(edit, Edit::Ban(..)));
    state.intent.bans().len().saturating_sub(ended.count())
}

/// The attacks that are looked for, by what is done about them.
pub(crate) fn detection(config: &Config) -> DetectionStatus {
    let rules = config.attack_rules().into_iter();
    let (reported, answered): (Vec<_>, Vec<_>) =
        rules.partition(|(_, rule)| rule.answer == Answer::Observe);
    let kinds = |rules: Vec<(Kind, Rule)>| rules.into_iter().map(|(kind, _)| kind).collect();
    DetectionStatus {
        reported: kinds(reported),
        answered: kinds(answered),
    }
}

pub(crate) fn database(state: &State) -> DatabaseStatus {
    let damaged = match state.store.found() {
        Found::Damaged(damage) => Some(DamagedDatabase {
            file: damage.file.display().to_string(),
            error: damage.error.clone(),
        }),
        Found::Sound | Found::Nothing => None,
    };
    let suspended = state.intent.suspended_limits();
    let suspended = suspended.map(|(target, why)| SuspendedLimits {
        policy: target.policy_name(),
        error: why.to_owned(),
    });
    DatabaseStatus {
        damaged,
        aside: state.store.count_aside(),
        suspended: suspended.collect(),
    }
}

pub(crate) fn class_views(state: &State) -> Vec<ClassView> {
    let named = state.intent.config.classes.iter();
    let view = |(name, class, action): (&str, Class, Option<Action>)| ClassView {
        name: name.to_owned(),
        class,
        action,
    };
    named.map(view).collect()
}

pub(crate) fn aggregate_lengths(state: &State) -> Vec<String> {
    let policies = IpFamily::ALL.into_iter();
    let policies = policies.flat_map(|family| state.compiled.policies.of_prefixes(family));
    let length = |(length, _, named): (u8, _, &Named)| {
        let is_ipv6 = matches!(named.role, Role::Prefixes(IpFamily::V6, _));
        format!("{}/{length}", if is_ipv6 { "ipv6" } else { "ipv4" })
    };
    policies.map(length).collect()
}

pub(crate) fn is_compact(state: &State) -> bool {
    state.enforcer.datapath().table_sets().is_some()
}

pub(crate) fn maps(state: &State, slots: Option<[u64; 2]>) -> Vec<MapStatus> {
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
