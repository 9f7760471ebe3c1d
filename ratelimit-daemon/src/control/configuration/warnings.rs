//! Warnings about a legal configuration that is probably a mistake: packets that never reach this
//! host, or pass it twice.

use ratelimit_common::parse::LinkLayer;
use ratelimit_core::{
    config::{self, Config},
    diagnostic::{Diagnostic, Problem},
    prefix::Prefix,
};
use ratelimit_interface::{self as interface, route::Routes};
use tracing::warn;

/// Logs the warnings of a configuration.
pub fn warn(config: &Config) {
    report(&warnings(config));
}

pub fn report(warnings: &[String]) {
    for warning in warnings {
        warn!("{warning}");
    }
}

/// Returns the warnings, one per line, each with a hint.
pub fn warnings(config: &Config) -> Vec<String> {
    let destinations = destinations(config).unwrap_or_else(|error| {
        let unknown = format!("cannot determine which destinations are routed here: {error:#}");
        Some(unknown)
    });
    let class = config.class_of_vlan();
    let vlans = class.iter().flat_map(|class| vlans(config, class));
    destinations
        .into_iter()
        .chain(vlans)
        .chain(tunnels(config))
        .chain(secrets(config))
        .collect()
}

/// Returns warnings about secret files that all users can read.
pub fn secrets(config: &Config) -> Vec<String> {
    let exposed = config::exposed(config).into_iter();
    let line = |it: Diagnostic| {
        let file = it.file.unwrap_or_default();
        let Problem { message, hint, .. } = it.problem;
        format!("{}: {message}: {hint}", file.display())
    };
    exposed.map(line).collect()
}

fn destinations(config: &Config) -> anyhow::Result<Option<String>> {
    if config.named_destinations().next().is_none() {
        return Ok(None);
    }
    let routes = Routes::read()?;
    let leads_into = |prefix: Prefix| {
        let covers = |address| prefix.covers(Prefix::from(address));
        routes.lead_into(prefix.address(), covers)
    };
    let elsewhere = config.destinations_elsewhere(leads_into)?;
    let Some((title, first)) = elsewhere.first() else {
        return Ok(None);
    };
    let others = match elsewhere.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    let address = first.address();
    Ok(Some(format!(
        "{title}{others}: not routed to this host; see `ip route get {address}`"
    )))
}

/// Returns the interfaces whose packets another interface has already judged inside their tunnel.
fn tunnels(config: &Config) -> Vec<String> {
    let interfaces = config.interfaces.iter().map(|it| &it.name);
    let lines = interfaces.filter_map(|name| {
        let state = interface::query(name).ok().flatten()?;
        config.judged_twice(name, state.kind.as_deref())
    });
    lines.collect()
}

/// Returns the interfaces whose frames have no VLAN tags.
fn vlans(config: &Config, class: &str) -> Vec<String> {
    let interfaces = config.interfaces.iter().map(|it| &it.name);
    let without = interfaces.filter(|name| is_without_ethernet(name));
    let lines = without.map(|name| {
        format!("{class} needs a VLAN tag, which packets of {name} do not have: they start with IP")
    });
    lines.collect()
}

/// A missing interface is reported when the program is attached to it.
fn is_without_ethernet(name: &str) -> bool {
    let state = interface::query(name).ok().flatten();
    let layer = state.and_then(|state| interface::link_layer(state.index).ok().flatten());
    layer == Some(LinkLayer::None)
}
