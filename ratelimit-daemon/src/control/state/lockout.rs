//! Refuses configurations whose policies drop every packet of a gateway, a resolver or an SSH
//! client.
//!
//! A policy exempts protected addresses like a ban does. But the protection of an SSH client ends
//! with its session, and that of a resolver when another one is configured, so these should be
//! allowed.

use ratelimit_core::{
    api::{Code, Refused},
    config::Config,
    intent::Edit,
    lists::Action,
    prefix::Prefix,
};

use crate::{clock, control::state::State, protected::Why};

/// Refuses a configuration that drops needed addresses which the running one lets in. `lists` are
/// the edits of lists that come with it.
pub fn require_reachable(state: &mut State, next: &Config, lists: &[Edit]) -> Result<(), Refused> {
    if next.policies_that_drop().next().is_none() {
        return Ok(());
    }
    let before = unreachable(state, &state.intent.config);
    let before: Vec<Prefix> = before.into_iter().map(|(prefix, _)| prefix).collect();
    let mut lists = lists.to_vec();
    state.intent.edit_all(&mut lists);
    let answer = require_none_else_dropped(state, next, &before);
    state.intent.edit_all(&mut lists);
    answer
}

fn require_none_else_dropped(
    state: &State,
    next: &Config,
    before: &[Prefix],
) -> Result<(), Refused> {
    let mut dropped = unreachable(state, next);
    dropped.retain(|(prefix, _)| !before.contains(prefix));
    let Some(policy) = dropped
        .first()
        .and_then(|(it, _)| state.intent.dropped_under(next, *it))
    else {
        return Ok(());
    };
    let error = format!(
        "[policy.{policy}] would drop every packet of {}",
        named(&dropped)
    );
    let hint = "add the addresses to [allow] or to another policy, or use `rlctl reload --force` \
                (drops them once they are no longer protected)";
    Err(Refused::because(error).hint(hint).code(Code::Protected))
}

/// Returns a warning about needed addresses that the running configuration drops.
pub fn warning(state: &State) -> Option<String> {
    let dropped = unreachable(state, &state.intent.config);
    (!dropped.is_empty()).then(|| {
        let named = named(&dropped);
        format!(
            "a policy drops every packet of {named} once this is no longer protected; add it to \
             [allow]"
        )
    })
}

/// Returns the needed addresses that a configuration drops.
fn unreachable<'s>(state: &'s State, config: &Config) -> Vec<(Prefix, &'s Why)> {
    let protected = state.protection.all().iter();
    let needed = protected.filter_map(|(prefix, reasons)| {
        let reasons: Vec<&Why> = reasons.collect();
        let is_here = |why: &&Why| matches!(why, Why::Loopback | Why::Own(_));
        let is_needed = |why: &&Why| {
            matches!(
                why,
                Why::Gateway(_) | Why::Resolver(_) | Why::SshPeer | Why::Service(_)
            )
        };
        let is_here = prefix.address().is_loopback() || reasons.iter().any(is_here);
        let why = reasons.into_iter().find(is_needed)?;
        (!is_here).then_some((prefix, why))
    });
    needed
        .filter(|(prefix, _)| !is_let_in(state, config, *prefix))
        .collect()
}

fn is_let_in(state: &State, config: &Config, prefix: Prefix) -> bool {
    let now = clock::now();
    let mut configured = config.allow.iter();
    let mut runtime = state.intent.allows().iter();
    // A list of the configuration in force goes with its table.
    let remains = |name: &str| {
        config.lists.contains_key(name) || !state.intent.config.lists.contains_key(name)
    };
    let mut lists = state.intent.lists_for(Action::Allow);
    state.intent.dropped_under(config, prefix).is_none()
        || configured.any(|allow| allow.covers(prefix))
        || runtime.any(|(allow, row)| row.until > now && allow.covers(prefix))
        || lists.any(|(name, list)| remains(name) && list.around(prefix, now).next().is_some())
}

/// `203.0.113.9, the client of an SSH session, and 192.0.2.1, the default gateway of eth0`
fn named(dropped: &[(Prefix, &Why)]) -> String {
    let each = dropped
        .iter()
        .map(|(prefix, why)| format!("{prefix}, {why}"));
    each.collect::<Vec<_>>().join(", and ")
}
