//! Whether what sources have used is kept when their limits change.

use std::collections::BTreeMap;

use ratelimit_common::Policy;

use crate::{
    intent::{Intent, Target},
    policies::{DEFAULT, Policies, destination_name},
    prefix::Prefix,
    rules::Rules,
};

/// The scopes under which the state of sources is kept.
pub struct Scopes {
    /// Scope of the sources of a target; `None` if they have no limits.
    target: Option<u32>,
    /// Scopes of prefixes with runtime limits.
    runtime: BTreeMap<Prefix, u32>,
}

impl Scopes {
    /// Returns the scopes for the sources of `target`, and for those of the prefixes `runtime`.
    pub fn new(
        rules: &Rules,
        policies: &Policies,
        target: Target,
        runtime: impl Iterator<Item = Prefix>,
    ) -> Self {
        Self {
            target: scope_of(rules, policies, target),
            runtime: scopes_of(runtime, policies),
        }
    }

    /// Returns the usage that is carried over according to `intent`, whose policies are compiled.
    pub fn of_intent(intent: &Intent, policies: &Policies, target: Target) -> Self {
        let names = target.sources().and_then(|prefix| {
            let mut around = prefix.supernets().rev();
            around.find_map(|outer| intent.policy_name(outer))
        });
        let destination = target.destination().map(destination_name);
        let name = destination.or(names);
        let named = policies.get(name.as_deref().unwrap_or(DEFAULT));
        let runtime = intent.limits().keys().filter_map(|it| it.sources());
        Self {
            target: named.and_then(|named| scope_with_limits(&named.policy)),
            runtime: scopes_of(runtime, policies),
        }
    }

    /// Whether a change to the scopes `after` resets usage of sources of the target, or of a prefix
    /// within.
    pub fn start_anew_as(&self, after: &Self) -> bool {
        let is_other =
            matches!((self.target, after.target), (Some(before), Some(after)) if before != after);
        is_other || self.lost(after).next().is_some()
    }

    /// Describes which usage of prefixes with runtime limits is reset, one line each.
    pub fn runtime_changes(&self, after: &Self) -> Vec<String> {
        self.lost(after)
            .map(|prefix| format!("limits of {prefix}: usage counters reset"))
            .collect()
    }

    fn lost<'a>(&'a self, after: &'a Self) -> impl Iterator<Item = &'a Prefix> {
        let lost = self.runtime.iter().filter(|(prefix, scope)| {
            let after = after.runtime.get(prefix);
            after.is_some_and(|after| after != *scope)
        });
        lost.map(|(prefix, _)| prefix)
    }
}

/// Returns the scope of a target's state; `None` if it has no limits.
pub fn scope_of(rules: &Rules, policies: &Policies, target: Target) -> Option<u32> {
    if let Some(prefix) = target.destination() {
        return scope_with_limits(&policies.get(&destination_name(prefix))?.policy);
    }
    let index = target
        .sources()
        .and_then(|prefix| rules.sum(prefix).policy());
    let named = match index {
        Some(index) => policies.at(index).map(|(_, named)| named),
        None => policies.get(DEFAULT),
    };
    scope_with_limits(&named?.policy)
}

fn scopes_of(runtime: impl Iterator<Item = Prefix>, policies: &Policies) -> BTreeMap<Prefix, u32> {
    let scope = |prefix: &Prefix| Some(policies.get(&prefix.to_string())?.policy.scope());
    let scopes = runtime.filter_map(|prefix| Some((prefix, scope(&prefix)?)));
    scopes.collect()
}

fn scope_with_limits(policy: &Policy) -> Option<u32> {
    (!policy.is_empty()).then(|| policy.scope())
}
