//! What a configuration says of packets that do not come to this host, or come twice. It is legal, and probably not what was meant.

use ratelimit_common::parse::LinkLayer;
use ratelimit_core::{
    config::{self, Config},
    diagnostic::{Diagnostic, Problem},
    prefix::Prefix,
};
use ratelimit_interface::{self as interface, route::Routes};
use tracing::warn;

/// Reports it in the log.
pub fn warn(config: &Config) {
    report(&warnings(config));
}

/// Reports these in the log.
pub fn report(warnings: &[String]) {
    for warning in warnings {
        warn!("{warning}");
    }
}

/// A line each, with what to do.
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

/// The files of secrets that everybody may read.
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

/// The interfaces whose packets another one has judged inside of their tunnel.
fn tunnels(config: &Config) -> Vec<String> {
    let interfaces = config.interfaces.iter().map(|it| &it.name);
    let lines = interfaces.filter_map(|name| {
        let state = interface::query(name).ok().flatten()?;
        config.judged_twice(name, state.kind.as_deref())
    });
    lines.collect()
}

/// The interfaces that have no frames with VLANs.
fn vlans(config: &Config, class: &str) -> Vec<String> {
    let interfaces = config.interfaces.iter().map(|it| &it.name);
    let without = interfaces.filter(|name| is_without_ethernet(name));
    let lines = without.map(|name| {
        format!("{class} needs a VLAN tag, which packets of {name} do not have: they start with IP")
    });
    lines.collect()
}

/// One that is not there, or cannot be asked about, is reported when it is to be attached to.
fn is_without_ethernet(name: &str) -> bool {
    let state = interface::query(name).ok().flatten();
    let layer = state.and_then(|state| interface::link_layer(state.index).ok().flatten());
    layer == Some(LinkLayer::None)
}
