//! Whether packets to the destinations that have limits have a way through this host.

use ratelimit_core::{config::Config, prefix::Prefix};
use ratelimit_interface::{
    address,
    route::{self, Way},
};

use super::finding::Finding;

const CHECK: &str = "destinations";

/// What of the destinations of a configuration is not routed here; `None` where it has none.
pub fn examine(config: &Config) -> Option<Finding> {
    let destinations = &config.destinations;
    if destinations.is_empty() {
        return None;
    }
    let strays: anyhow::Result<Vec<Prefix>> = destinations
        .keys()
        .filter_map(|prefix| {
            is_stray(*prefix)
                .map(|stray| stray.then_some(*prefix))
                .transpose()
        })
        .collect();
    let strays = match strays {
        Ok(strays) => strays,
        Err(error) => return Some(Finding::unknown(CHECK, "unread", format!("{error:#}"))),
    };
    let Some(first) = strays.first() else {
        let count = destinations.len();
        return Some(Finding::ok(CHECK, format!("{count}, all routed here")));
    };
    let found = match strays.len() {
        1 => format!("{first} is not routed here"),
        count => format!("{first} and {} more are not routed here", count - 1),
    };
    let why = format!(
        "[destination.\"{first}\"] counts what comes here for it, and no address of this host and no route but the default one is for it"
    );
    let fix = format!("ip route get {}", first.address());
    Some(Finding::warning(CHECK, found, why).fix(fix))
}

/// Whether no packet to it belongs here: it is neither local, nor behind a route of its own.
fn is_stray(prefix: Prefix) -> anyhow::Result<bool> {
    if prefix.is_empty() {
        return Ok(false);
    }
    let is_routed = matches!(route::way_to(prefix.address())?, Way::Here | Way::Routed);
    if is_routed || prefix.is_address() {
        return Ok(!is_routed);
    }
    let mut own = address::own()?.into_iter();
    Ok(!own.any(|(own, _)| prefix.covers(Prefix::from(own))))
}
