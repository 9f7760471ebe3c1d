//! `rlctl limits`: the policies and their limits.

use ratelimit_common::list::PolicyAction;
use ratelimit_core::{
    api::{AppliesTo, EntryCounter, Origin, PolicyView, RuntimeEntry},
    intent::Target,
    policies::{DEFAULT, Role, is_detected, list_name},
    prefix::Prefix,
};

use crate::control::{reports::rows, state::State};

/// Returns the policies: the default one first, those of wider prefixes and of the node last.
pub fn limits(state: &State) -> Vec<PolicyView> {
    let wanted = state.intent.policies();
    wanted
        .into_iter()
        .flat_map(|policy| {
            let (role, own_limits) = (policy.role, policy.limits.len());
            let runtime = match policy.role {
                Role::Destination(prefix) => {
                    let row = state.intent.limits_of(Target::Destination(prefix));
                    row.map(|row| rows::runtime(&row.entry))
                }
                Role::Established => None,
                Role::Sources | Role::Prefixes(..) | Role::Interface | Role::Node => {
                    runtime_of(state, &policy.name)
                }
            };
            let manual = runtime.is_some();
            let configured = state.intent.config.policies.get(&policy.name);
            let own: Option<Prefix> = policy.name.parse().ok().filter(|_| manual);
            let detected = is_detected(&policy.name);
            let target = match policy.name.as_str() {
                DEFAULT => Some(Target::Default),
                _ => own.map(Target::Sources),
            };
            let action = target.map(|target| state.intent.action_around(target));
            let is_dry_run = match action {
                Some(PolicyAction::Drop) => false,
                Some(PolicyAction::Observe) => true,
                Some(PolicyAction::Limit) | None => policy.observe,
            };
            let view = PolicyView {
                prefixes: match configured {
                    Some(policy) => policy.sources.clone(),
                    None if detected => state.intent.limited_under(&policy.name),
                    None => own.into_iter().collect(),
                },
                selection: {
                    let database = state.intent.config.lists.get(&list_name(&policy.name));
                    database.and_then(|it| Some(it.selection.as_ref()?.to_string()))
                },
                limits: policy.all_limits().cloned().collect(),
                drops: match action {
                    Some(action) => action != PolicyAction::Limit,
                    None => configured.is_some_and(|policy| policy.drops),
                },
                connections: match (policy.name.as_str(), configured) {
                    (DEFAULT, _) => state.intent.config.default_policy.connections,
                    (_, configured) => configured.and_then(|policy| policy.connections),
                },
                observe: is_dry_run || state.intent.config.observe,
                ban: policy.ban,
                applies_to: applies_to(policy.role),
                origin: match &runtime {
                    _ if detected => Origin::Automatic,
                    Some(runtime) => Origin::of_author(&runtime.author),
                    None => Origin::Config,
                },
                runtime,
                counter: match policy.role {
                    Role::Sources => state.policy_counter(&policy.name),
                    Role::Established
                    | Role::Prefixes(..)
                    | Role::Destination(_)
                    | Role::Interface
                    | Role::Node => EntryCounter::default(),
                },
                name: policy.name,
            };
            views_of(state, view, role, own_limits)
        })
        // Policies of sources that may reach a limit of their connections exist before any does.
        .filter(|view| !is_detected(&view.name) || !view.prefixes.is_empty())
        .collect()
}

/// Splits the view of a destination's policy into its total limits and those of each source there.
fn views_of(state: &State, view: PolicyView, role: Role, own: usize) -> Vec<PolicyView> {
    let Role::Destination(prefix) = role else {
        return vec![view];
    };
    let config = &state.intent.config;
    let configured = config.destinations.get(&prefix);
    let observes = config.observe || configured.is_some_and(|destination| destination.observe);
    let (total, of_each) = view.limits.split_at(own);
    let both = [
        (total, AppliesTo::Destination, view.name.clone()),
        (
            of_each,
            AppliesTo::SourceToDestination,
            format!("{} of each source", view.name),
        ),
    ];
    let reported = both.into_iter().filter(|(limits, ..)| !limits.is_empty());
    let reported = reported.map(|(limits, applies_to, name)| {
        let is_total = applies_to == AppliesTo::Destination;
        let origin = is_total.then(|| view.origin.clone());
        PolicyView {
            name,
            prefixes: vec![prefix],
            limits: limits.to_vec(),
            runtime: view.runtime.clone().filter(|_| is_total),
            origin: origin.unwrap_or(Origin::Config),
            applies_to,
            observe: if is_total { view.observe } else { observes },
            ..view.clone()
        }
    });
    reported.collect()
}

/// Returns who set the limits of a policy at runtime, if any.
pub(crate) fn runtime_of(state: &State, policy: &str) -> Option<RuntimeEntry> {
    let target = match policy {
        DEFAULT => Target::Default,
        name => Target::Sources(name.parse().ok()?),
    };
    let row = state.intent.limits_of(target);
    row.map(|row| rows::runtime(&row.entry))
}

fn applies_to(role: Role) -> AppliesTo {
    match role {
        Role::Sources | Role::Established => AppliesTo::Source,
        Role::Prefixes(..) => AppliesTo::Prefix,
        Role::Destination(_) => AppliesTo::Destination,
        Role::Interface => AppliesTo::Interface,
        Role::Node => AppliesTo::Node,
    }
}
