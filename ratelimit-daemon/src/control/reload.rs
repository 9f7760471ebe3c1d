//! What a new configuration changes, and what of it waits for a restart.

use super::policies;
use crate::config::{Config, PolicyConfig};

/// What takes effect only at a restart and is different; `None` when nothing is.
///
/// Interfaces, sources and paths are fixed when the program is loaded, which takes capabilities that the daemon has given up.
pub fn needs_restart(before: &Config, after: &Config) -> Option<&'static str> {
    let parts = [
        ("[[interface]]", before.interfaces != after.interfaces),
        ("[source]", before.source != after.source),
        ("[paths]", before.paths != after.paths),
        ("[metrics]", before.metrics != after.metrics),
    ];
    parts
        .into_iter()
        .find(|(_, different)| *different)
        .map(|(part, _)| part)
}

/// What is different, a line each.
pub fn changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let mut policy =
        |name: &str, before: Option<&PolicyConfig>, after: Option<&PolicyConfig>| match (
            before, after,
        ) {
            (None, Some(_)) => lines.push(format!("policy {name}: added")),
            (Some(_), None) => lines.push(format!("policy {name}: removed")),
            (Some(before), Some(after)) if before != after => {
                lines.push(policy_change(name, before, after));
            }
            _ => {}
        };
    policy(
        "default",
        Some(&before.default_policy),
        Some(&after.default_policy),
    );
    let names: std::collections::BTreeSet<_> = before
        .policies
        .keys()
        .chain(after.policies.keys())
        .collect();
    for name in names {
        policy(name, before.policies.get(name), after.policies.get(name));
    }
    if before.allow != after.allow {
        let added = after
            .allow
            .iter()
            .filter(|prefix| !before.allow.contains(prefix))
            .count();
        let removed = before
            .allow
            .iter()
            .filter(|prefix| !after.allow.contains(prefix))
            .count();
        lines.push(format!("allow list: +{added} -{removed}"));
    }
    if before.observe != after.observe {
        lines.push(format!("observe: {} -> {}", before.observe, after.observe));
    }
    if before.on_stop != after.on_stop {
        lines.push(format!("on_stop: {:?} -> {:?}", before.on_stop, after.on_stop).to_lowercase());
    }
    lines
}

fn policy_change(name: &str, before: &PolicyConfig, after: &PolicyConfig) -> String {
    let mut parts = Vec::new();
    if before.limits != after.limits {
        parts.push(format!("{} -> {}", limits(before), limits(after)));
        if !before.limits.is_empty() && !after.limits.is_empty() {
            parts.push(kept(before, after).to_owned());
        }
    }
    if before.sources != after.sources {
        parts.push(format!(
            "{} prefixes -> {}",
            before.sources.len(),
            after.sources.len()
        ));
    }
    if before.observe != after.observe {
        parts.push(format!("observe {} -> {}", before.observe, after.observe));
    }
    format!("policy {name}: {}", parts.join("; "))
}

/// What becomes of the state of the policy's sources.
fn kept(before: &PolicyConfig, after: &PolicyConfig) -> &'static str {
    if policies::keeps_state(&before.limits, &after.limits) {
        "what its sources have used is kept"
    } else {
        "what its sources have used starts anew"
    }
}

fn limits(policy: &PolicyConfig) -> String {
    if policy.limits.is_empty() {
        return "no limit".to_owned();
    }
    let limits: Vec<String> = policy.limits.iter().map(ToString::to_string).collect();
    limits.join(" and ")
}
