//! All rules for an address, and the one that decides.

use std::{cmp::Reverse, net::IpAddr, sync::Arc};

use ratelimit_common::{DropReason, Instant, PassReason, Verdict};
use ratelimit_core::{
    api::{Allow, Ban, Covering, CoveringEntry, Origin, SeenDrops, What},
    counter_slots::Owner,
    intent::renewed,
    lists::Action,
    prefix::Prefix,
};

use super::{allows, bans, check, limits};
use crate::{
    clock,
    control::{reports::rows, state::State, time::expiry},
};

/// Every entry that covers `address`, of packets that come by an interface: allows, bans, policies,
/// of each table the one first that comes before the others.
pub(crate) fn covering(
    state: &State,
    (address, interface): (IpAddr, Option<&str>),
    verdict: Verdict,
) -> Vec<Covering> {
    let now = clock::now();
    let around: Vec<Prefix> = Prefix::from(address).supernets().rev().collect();
    let allows = around
        .iter()
        .flat_map(|prefix| allows_of(state, *prefix, now));
    let mut allows: Vec<Allow> = allows.chain(listed_allows(state, address, now)).collect();
    allows.sort_by_key(|allow| {
        let ends_later = (allow.until.is_some(), Reverse(allow.until));
        (ends_later, Reverse(allow.prefix.len()))
    });
    let policies = around.iter().filter_map(|prefix| {
        let policy = state.intent.policy_name(*prefix)?;
        Some(policy_entry(state, policy, Some(*prefix)))
    });
    let default = state.intent.config.policy_on(interface);
    let default = policy_entry(state, default.to_owned(), None);
    let bans = bans_around(state, address, now);
    let entries = allows
        .into_iter()
        .map(CoveringEntry::Allow)
        .chain(bans.into_iter().map(CoveringEntry::Ban))
        .chain(policies)
        .chain([default]);
    let mut covering: Vec<Covering> = entries
        .map(|entry| Covering {
            entry,
            decides: false,
        })
        .collect();
    let deciding = covering
        .iter_mut()
        .find(|covering| is_of_verdict(&covering.entry, verdict));
    if let Some(deciding) = deciding {
        deciding.decides = true;
    }
    covering
}

fn policy_entry(state: &State, policy: String, prefix: Option<Prefix>) -> CoveringEntry {
    CoveringEntry::Policy {
        runtime: limits::runtime_of(state, &policy),
        counter: state.policy_counter(&policy),
        policy,
        prefix,
    }
}

/// Returns the kept drops of a source, of all interfaces or of one, the last first. Drops that
/// differ in their source port only are one.
pub(crate) fn last_drops(state: &State, source: Prefix, interface: Option<&str>) -> Vec<SeenDrops> {
    let mut seen: Vec<SeenDrops> = Vec::new();
    for event in state.reports.journal.drops() {
        if let What::Drop(dropped) = &event.what
            && interface.is_none_or(|interface| dropped.interface == interface)
            && source.covers(dropped.source.into())
        {
            SeenDrops::add(&mut seen, event);
        }
    }
    seen.reverse();
    seen
}

/// The bans of an address, those of lists too, the one that ends last first; those that stop at a
/// protected address after those that do not. Packets are counted for the first.
pub(super) fn bans_around(state: &State, address: IpAddr, now: Instant) -> Vec<Ban> {
    let bans = state.intent.bans_around(address.into());
    let bans = bans.filter(|(_, _, row)| row.until > now);
    let bans = bans.map(|(prefix, origin, row)| {
        let until = renewed::end_of_ban(origin, row.until);
        (until, bans::reported_ban(state, prefix, origin, row))
    });
    let mut bans: Vec<_> = bans
        .chain(check::listed_bans(state, address, now))
        .collect();
    let is_protected = state.protection.why(address).is_some();
    bans.sort_by_key(|(until, ban)| {
        let stops = is_protected && ban.origin != Origin::Forced;
        (stops, Reverse(*until), Reverse(ban.prefix.len()))
    });
    bans.into_iter().map(|(_, ban)| ban).collect()
}

/// The entries of lists that allow an address.
fn listed_allows(state: &State, address: IpAddr, now: Instant) -> Vec<Allow> {
    let lists = state.intent.lists_for(Action::Allow);
    let allows = lists.flat_map(|(name, list)| {
        let entries = list.around(address.into(), now);
        entries.map(move |entry| Allow {
            prefix: entry.prefix,
            until: expiry::reported(entry.until),
            since: Some(list.since),
            reason: list.reasons.get(entry.reason).map(Into::into),
            author: Some(Arc::clone(&list.author)),
            origin: Origin::List(Arc::clone(name)),
            counter: state.counter(Owner::List(name)),
        })
    });
    allows.collect()
}

/// Returns the allows of a prefix, the one of the configuration first, because it does not end.
fn allows_of(state: &State, prefix: Prefix, now: Instant) -> impl Iterator<Item = Allow> {
    let is_configured = state.intent.config.allow.contains(&prefix);
    let configured = is_configured.then(|| allows::configured_allow(state, prefix));
    let row = state.intent.allows().get(&prefix);
    let row = row.filter(|row| row.until > now);
    let runtime = row.map(|row| rows::allow(prefix, row, state.counter(Owner::Allow(prefix))));
    configured.into_iter().chain(runtime)
}

/// Whether a verdict comes from entries like this one. Limits shared by wider prefixes or the node
/// are in no table.
fn is_of_verdict(entry: &CoveringEntry, verdict: Verdict) -> bool {
    match verdict {
        Verdict::Pass(PassReason::Allowed) => matches!(entry, CoveringEntry::Allow(_)),
        Verdict::Drop(DropReason::Banned) | Verdict::Observe(DropReason::Banned) => {
            matches!(entry, CoveringEntry::Ban(_))
        }
        Verdict::Drop(reason) | Verdict::Observe(reason) if reason.is_of_others() => false,
        Verdict::Pass(_) | Verdict::Drop(_) | Verdict::Observe(_) => {
            matches!(entry, CoveringEntry::Policy { .. })
        }
    }
}
