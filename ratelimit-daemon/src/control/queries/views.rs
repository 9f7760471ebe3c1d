//! Bans, allows, limits and counters, as they are reported.

use std::net::IpAddr;

use ratelimit_common::{DropReason, Verdict};
use ratelimit_core::{
    api::{
        Allow, AppliesTo, Ban, EntryCounter, Origin, PolicyView, ProtectedView, Refused,
        RuntimeEntry, StatsRow,
    },
    config::OnStop,
    counter_slots::Owner,
    intent::{EntryRow, Target},
    policies::{DEFAULT, Role, is_detected},
    prefix::Prefix,
};

use crate::{
    clock,
    control::{reports::rows, state::State},
    datapath::{self, CounterRow},
};

/// The addresses at which a packet has a socket here, or nobody wants it. None where another program comes behind ours: it may
/// answer without a socket.
pub fn own_addresses(state: &State) -> Vec<IpAddr> {
    let mut interfaces = state.intent.config.interfaces.iter();
    if interfaces.any(|interface| interface.next.is_some()) {
        return Vec::new();
    }
    state.protection.all().own_addresses().collect()
}

/// What becomes of the programs when the daemon stops.
pub fn on_stop(state: &State) -> OnStop {
    state.intent.config.on_stop
}

/// The bans, in the order of their prefixes and origins.
pub fn bans(state: &State) -> Vec<Ban> {
    let now = clock::now();
    let lasting = state.intent.bans().iter();
    lasting
        .filter(|(_, row)| row.until > now)
        .map(|((prefix, origin), row)| reported_ban(state, *prefix, origin, row))
        .collect()
}

/// A ban as it is reported, with its counter.
pub(crate) fn reported_ban(state: &State, prefix: Prefix, origin: &Origin, row: &EntryRow) -> Ban {
    let owner = if let Origin::List(name) = origin {
        Owner::List(name)
    } else {
        Owner::Ban(prefix, origin)
    };
    rows::ban(prefix, origin, row, state.counter(owner))
}

/// What is protected, and why.
pub fn protected(state: &State) -> Vec<ProtectedView> {
    state.protection.views(&state.compiled.rules)
}

/// The allow list: that of the configuration, and what was added at runtime.
pub fn allows(state: &State) -> Vec<Allow> {
    let now = clock::now();
    let allows = state.intent.allows();
    let lasts = |prefix: &Prefix| allows.get(prefix).is_some_and(|row| row.until > now);
    let runtime = allows.iter().filter(|(prefix, _)| lasts(prefix));
    let runtime = runtime
        .map(|(prefix, row)| rows::allow(*prefix, row, state.counter(Owner::Allow(*prefix))));
    let configured = state.intent.config.allow.iter();
    let configured = configured.filter(|prefix| !lasts(prefix));
    let configured = configured.map(|prefix| configured_allow(state, *prefix));
    let mut allows: Vec<Allow> = runtime.chain(configured).collect();
    allows.sort_by_key(|allow| allow.prefix);
    allows
}

/// What the configuration allows.
pub(super) fn configured_allow(state: &State, prefix: Prefix) -> Allow {
    Allow {
        prefix,
        until: None,
        since: None,
        reason: None,
        author: None,
        origin: Origin::Config,
        counter: state.counter(Owner::Allow(prefix)),
    }
}

/// The policies, the default one first, those of wider prefixes and of the node last.
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
                Role::Sources | Role::Prefixes(..) | Role::Interface | Role::Node => {
                    runtime_of(state, &policy.name)
                }
            };
            let manual = runtime.is_some();
            let configured = state.intent.config.policies.get(&policy.name);
            let own = policy.name.parse().ok().filter(|_| manual);
            let detected = is_detected(&policy.name);
            let view = PolicyView {
                prefixes: match configured {
                    Some(policy) => policy.sources.clone(),
                    None if detected => state.intent.limited_under(&policy.name),
                    None => own.into_iter().collect(),
                },
                limits: policy.all_limits().cloned().collect(),
                observe: policy.observe,
                ban: policy.ban,
                applies_to: applies_to(policy.role),
                origin: match &runtime {
                    _ if detected => Origin::Detected,
                    Some(runtime) => Origin::of_author(&runtime.author),
                    None => Origin::Config,
                },
                runtime,
                counter: match policy.role {
                    Role::Sources => state.policy_counter(&policy.name),
                    Role::Prefixes(..) | Role::Destination(_) | Role::Interface | Role::Node => {
                        EntryCounter::default()
                    }
                },
                name: policy.name,
            };
            views_of(view, role, own_limits)
        })
        .collect()
}

/// A policy; of a destination, its own limits and those of what each source may send there apart.
fn views_of(view: PolicyView, role: Role, own: usize) -> Vec<PolicyView> {
    let Role::Destination(prefix) = role else {
        return vec![view];
    };
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
            ..view.clone()
        }
    });
    reported.collect()
}

/// Who set the limits of a policy at runtime; `None` where nobody did.
pub(crate) fn runtime_of(state: &State, policy: &str) -> Option<RuntimeEntry> {
    let target = match policy {
        DEFAULT => Target::Default,
        name => Target::Sources(name.parse().ok()?),
    };
    let row = state.intent.limits_of(target);
    row.map(|row| rows::runtime(&row.entry))
}

/// The counters, a row for each verdict that was ever given.
pub fn stats(state: &State) -> Result<Vec<StatsRow>, Refused> {
    let rows = counters(state)?;
    Ok(rows
        .into_iter()
        .map(|(interface, row)| StatsRow {
            interface,
            family: row.family.label().to_owned(),
            action: row.verdict.action().to_owned(),
            reason: row.verdict.reason().to_owned(),
            packets: row.count.packets,
            bytes: row.count.bytes,
        })
        .collect())
}

/// Packets that limits of the node refused, or would have in a dry run.
pub fn refused_by_node(state: &State, interface: Option<&str>) -> datapath::Result<u64> {
    let rows = counters(state)?.into_iter();
    // What the interfaces with limits of their own refuse is not refused by those of the node.
    let rows = rows.filter(|(name, _)| match interface {
        Some(interface) => name == interface,
        None => !state.intent.config.has_own_node(name),
    });
    let is_of_node = |row: &CounterRow| {
        matches!(
            row.verdict,
            Verdict::Drop(DropReason::NodeLimited) | Verdict::Observe(DropReason::NodeLimited)
        )
    };
    let rows = rows.map(|(_, row)| row).filter(is_of_node);
    Ok(rows.map(|row| row.count.packets).sum())
}

pub(crate) fn counters(state: &State) -> datapath::Result<Vec<(String, CounterRow)>> {
    let slots = state.enforcer.datapath().slots();
    let name = |slot: u32| {
        let found = slots.iter().find(|(own, _)| *own == slot);
        found.map_or_else(String::new, |(_, name)| name.clone())
    };
    let rows = state.enforcer.datapath().counters()?;
    Ok(rows
        .into_iter()
        .map(|row| (name(row.interface), row))
        .collect())
}

fn applies_to(role: Role) -> AppliesTo {
    match role {
        Role::Sources => AppliesTo::Source,
        Role::Prefixes(..) => AppliesTo::Prefix,
        Role::Destination(_) => AppliesTo::Destination,
        Role::Interface => AppliesTo::Interface,
        Role::Node => AppliesTo::Node,
    }
}
