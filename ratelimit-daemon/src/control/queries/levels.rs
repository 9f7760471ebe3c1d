//! Usage of limits: those of a source, those that it shares with others, and those watched over
//! time.

use std::{
    cmp::Reverse,
    collections::HashMap,
    iter,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ratelimit_common::{Instant, Policy, layout::Counter, lease::node_key, source::LogKey};
use ratelimit_core::{
    api::{LimitState, Refused, WiderLimits},
    ip_family::IpFamily,
    policies::{NODE, Named, Part, Role},
    prefix::Prefix,
    watched::Watched,
};

use super::{limit_state::SourceState, stats};
use crate::{
    clock,
    control::{
        feeds::cluster::{Membership, log_key},
        state::State,
    },
    datapath::{self, DatapathError},
    traffic_log::{Series, Sums},
};

/// Returns the remaining capacity of the limits in `[history] watch`, except those of many sources
/// (`watched.rs`).
pub(super) fn watched(state: &State, cluster: &Membership) -> datapath::Result<Sums> {
    let watched = &state.intent.config.watched;
    let mut sums = Sums::new();
    if watched.is_empty() {
        return Ok(sums);
    }
    let now = clock::now();
    let shares = Shares::at(state, cluster, now)?;
    for watched in watched {
        for it in levels(state, &shares, watched, now)? {
            let here = it.share.map(|share| share.here);
            let left = here.unwrap_or(it.limit.capacity()).saturating_sub(it.used);
            let count = Counter {
                packets: left,
                bytes: 0,
            };
            if let Some(series) = Series::of_level(watched, &it.limit) {
                sums.insert(series, count);
            }
        }
    }
    Ok(sums)
}

/// Returns the levels of the limits of the node, a source, a prefix or a destination.
fn levels(
    state: &State,
    shares: &Shares<'_>,
    watched: &Watched,
    now: Instant,
) -> datapath::Result<Vec<LimitState>> {
    let prefix = match watched {
        Watched::Prefix(prefix) => *prefix,
        Watched::Node => {
            let node = state.compiled.policies.get(NODE);
            let limits = node.map(|node| limits_of_node(state, shares, node, now));
            return Ok(limits.transpose()?.unwrap_or_default());
        }
        Watched::Policy(_) => return Ok(Vec::new()),
    };
    let mut levels = Vec::new();
    let source = state.intent.config.source.around(prefix.address());
    if source.covers(prefix) {
        if let Some((_, named)) = policy_of(state, None, source.address()) {
            levels.extend(limit_states(state, shares, source, named, now)?);
        }
    } else {
        let family = IpFamily::of(prefix.address());
        for (_, _, named) in state.compiled.policies.of_prefixes(family) {
            if named.role.prefix_around(prefix.address()) == Some(prefix) {
                levels.extend(limit_states(state, shares, prefix, named, now)?);
            }
        }
    }
    for (destination, _, named) in state.compiled.policies.of_destinations() {
        if destination == prefix {
            let all = limits_of_destination(state, (source, prefix), named, now)?;
            let of_all = all.into_iter().filter(|it| it.prefix.is_none());
            levels.extend(of_all.flat_map(|it| it.limits));
        }
    }
    Ok(levels)
}

/// Returns whether the watched limits exist separately for each of many sources.
pub(super) fn is_of_many(state: &State, watched: &Watched) -> bool {
    let prefix = match watched {
        Watched::Prefix(prefix) => *prefix,
        Watched::Node => return false,
        Watched::Policy(_) => return true,
    };
    let has_own = state.compiled.policies.iter().any(|(_, named)| {
        named.role == Role::Destination(prefix)
            || named.role.prefix_around(prefix.address()) == Some(prefix)
    });
    !has_own
        && !state
            .intent
            .config
            .source
            .around(prefix.address())
            .covers(prefix)
}

/// Returns the policy for packets of a source, on an interface if one is named.
pub(super) fn policy_of<'a>(
    state: &'a State,
    interface: Option<&str>,
    source: IpAddr,
) -> Option<(&'a str, &'a Named)> {
    let matched = state.compiled.rules.longest_match(source);
    let index = matched.and_then(|(_, entry)| entry.policy());
    let named = index.and_then(|index| state.compiled.policies.at(index));
    let default = state.intent.config.policy_on(interface);
    named.or_else(|| Some((default, state.compiled.policies.get(default)?)))
}

/// Returns the limits that `source` shares with others, for packets of an interface if one is
/// named.
pub(super) fn wider(
    state: &State,
    shares: &Shares<'_>,
    (source, to): (Prefix, Option<IpAddr>),
    on: Option<&str>,
    now: Instant,
) -> datapath::Result<Vec<WiderLimits>> {
    let mut wider = Vec::new();
    let family = IpFamily::of(source.address());
    for (_, _, named) in state.compiled.policies.of_prefixes(family) {
        let prefix = named.role.prefix_around(source.address());
        let Some(around) = prefix else {
            continue;
        };
        wider.push(WiderLimits {
            prefix,
            observe: named.policy.observe(),
            limits: limit_states(state, shares, around, named, now)?,
            refused_packets: refused(state, around.address(), &named.policy)?,
            ..WiderLimits::default()
        });
    }
    if let Some((prefix, _, named)) = to.and_then(|to| destination_of(state, to)) {
        wider.extend(limits_of_destination(state, (source, prefix), named, now)?);
    }
    for (interface, node) in nodes(state, on) {
        wider.push(WiderLimits {
            interface: interface.map(str::to_owned),
            observe: node.policy.observe(),
            limits: limits_of_node(state, shares, node, now)?,
            refused_packets: Some(stats::refused_by_node(state, interface)?),
            ..WiderLimits::default()
        });
    }
    Ok(wider)
}

/// Returns how many packets the shared limits of a policy refused, if that is still recorded.
fn refused(state: &State, shared_by: IpAddr, policy: &Policy) -> datapath::Result<Option<u64>> {
    let tables = &state.enforcer.datapath().sources;
    let refusals = tables.shared_refusals(shared_by, policy.scope())?;
    Ok(refusals.map(|refusals| refusals.packets))
}

/// Returns the limits of the node, and those that interfaces have instead, with their names. For an
/// interface, only those that apply to it.
fn nodes<'a>(state: &'a State, on: Option<&'a str>) -> Vec<(Option<&'a str>, &'a Named)> {
    let config = &state.intent.config;
    let own = |name: &'a str| config.has_own_node(name).then_some(name);
    let places: Vec<Option<&str>> = if let Some(name) = on {
        vec![own(name)]
    } else {
        let names = config.interfaces.iter().filter_map(|it| own(&it.name));
        iter::once(None).chain(names.map(Some)).collect()
    };
    let places = places.into_iter();
    let found = places.map(|place| Some((place, state.compiled.policies.node_on(place)?.1)));
    found.flatten().collect()
}

/// Returns the levels of the limits of the node or an interface.
fn limits_of_node(
    state: &State,
    shares: &Shares<'_>,
    node: &Named,
    now: Instant,
) -> datapath::Result<Vec<LimitState>> {
    let tables = &state.enforcer.datapath().sources;
    let limits = node.parts().map(|part| {
        let key = node_key(part.policy.scope());
        let kept = SourceState::total(tables, part)?.leased(shares.leased.get(&key));
        Ok::<_, DatapathError>(shares.reported(&key, kept.limits(now)?))
    });
    Ok(limits.collect::<Result<Vec<_>, _>>()?.concat())
}

/// Returns the policy for packets to an address, with its prefix.
pub(super) fn destination_of(state: &State, to: IpAddr) -> Option<(Prefix, &str, &Named)> {
    let (_, entry) = state.compiled.rules.longest_match(to)?;
    let index = entry.destination()?;
    let mut all = state.compiled.policies.of_destinations();
    all.find(|(_, _, named)| named.index == index)
}

/// Returns the destinations with the fullest total limits, fullest first.
pub fn fullest_destinations(state: &State, count: usize) -> Result<Vec<WiderLimits>, Refused> {
    let now = clock::now();
    let all = state.compiled.policies.of_destinations();
    let all = all.filter_map(|(destination, _, named)| Some((destination, named.parts().next()?)));
    let limited = all.filter(|(_, part)| !part.limits.is_empty());
    let levels = limited.map(|(destination, part)| {
        Ok((received(state, destination, part, now)?, destination, part))
    });
    let mut levels = levels.collect::<datapath::Result<Vec<_>>>()?;
    let fullness = |it: &WiderLimits| {
        let parts = it.limits.iter();
        let parts = parts
            .map(|it| u128::from(it.used) * 1_000_000 / u128::from(it.limit.capacity().max(1)));
        parts.max()
    };
    levels.sort_by_key(|(it, destination, _)| (Reverse(fullness(it)), *destination));
    levels.truncate(count);
    let shown = levels.into_iter().map(|(it, destination, part)| {
        let refused_packets = refused(state, all_of(destination), part.policy)?;
        Ok(WiderLimits {
            refused_packets,
            ..it
        })
    });
    shown.collect()
}

/// Returns the levels of a destination's total limits. Refusals are not looked up.
fn received(
    state: &State,
    destination: Prefix,
    part: Part<'_>,
    now: Instant,
) -> datapath::Result<WiderLimits> {
    let tables = &state.enforcer.datapath().sources;
    let kept = SourceState::total(tables, part)?;
    Ok(WiderLimits {
        destination: Some(destination),
        observe: part.policy.observe(),
        limits: kept.limits(now)?,
        ..WiderLimits::default()
    })
}

/// Returns the unspecified address of the destination's family, under which its total limits are
/// stored.
fn all_of(destination: Prefix) -> IpAddr {
    match destination.address() {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    }
}

/// Returns the total limits of a destination, and those of a source there.
fn limits_of_destination(
    state: &State,
    (source, destination): (Prefix, Prefix),
    named: &Named,
    now: Instant,
) -> datapath::Result<Vec<WiderLimits>> {
    let tables = &state.enforcer.datapath().sources;
    let parts = named.parts().enumerate();
    let parts = parts.filter(|(_, part)| !part.limits.is_empty());
    let reported = parts.map(|(index, part)| {
        if index == 0 {
            return Ok(WiderLimits {
                refused_packets: refused(state, all_of(destination), part.policy)?,
                ..received(state, destination, part, now)?
            });
        }
        let kept = SourceState::of(tables, source.address(), part, now)?;
        Ok(WiderLimits {
            prefix: Some(source),
            destination: Some(destination),
            interface: None,
            observe: part.policy.observe(),
            limits: kept.limits(now)?,
            refused_packets: refused(state, source.address(), part.policy)?,
        })
    });
    reported.collect()
}

/// Returns the levels of a policy's limits for a source or a wider prefix.
pub(super) fn limit_states(
    state: &State,
    shares: &Shares<'_>,
    source: Prefix,
    named: &Named,
    now: Instant,
) -> datapath::Result<Vec<LimitState>> {
    let tables = &state.enforcer.datapath().sources;
    let limits = named.parts().map(|part| {
        let key = log_key(source.address(), part.policy.scope());
        let kept = SourceState::of(tables, source.address(), part, now)?;
        let kept = kept.leased(shares.leased.get(&key));
        Ok::<_, DatapathError>(shares.reported(&key, kept.limits(now)?))
    });
    Ok(limits.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The share of this node in limits that nodes share.
pub(super) struct Shares<'a> {
    cluster: &'a Membership,
    /// The leased policies, which replace others.
    pub leased: HashMap<LogKey, Policy>,
}

impl<'a> Shares<'a> {
    /// Reads the current shares.
    pub fn at(state: &State, cluster: &'a Membership, now: Instant) -> datapath::Result<Self> {
        let leased = state.enforcer.leased_at(now)?;
        Ok(Self { cluster, leased })
    }

    /// Adds the times since which shares have their amounts, and the total of the other nodes.
    fn reported(&self, key: &LogKey, mut limits: Vec<LimitState>) -> Vec<LimitState> {
        for (index, limit) in limits.iter_mut().enumerate() {
            if let Some(share) = &mut limit.share {
                (share.since, share.others) = self.cluster.share(key, index, share.here);
            }
        }
        limits
    }
}
