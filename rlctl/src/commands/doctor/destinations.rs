//! Whether packets to the destinations that have limits have a way through this host.

use ratelimit_core::{config::Config, prefix::Prefix};
use ratelimit_interface::route::Routes;

use super::finding::Finding;

const CHECK: &str = "destinations";

/// What of the destinations of a configuration is not routed here; `None` where it has none.
pub fn examine(config: &Config) -> Option<Finding> {
    if config.destinations.is_empty() {
        return None;
    }
    let strays = match elsewhere(config) {
        Ok(strays) => strays,
        Err(error) => return Some(Finding::unknown(CHECK, "unread", format!("{error:#}"))),
    };
    let Some(first) = strays.first() else {
        let count = config.destinations.len();
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

fn elsewhere(config: &Config) -> anyhow::Result<Vec<Prefix>> {
    let routes = Routes::read()?;
    config.destinations_elsewhere(|prefix| {
        let covers = |address| prefix.covers(Prefix::from(address));
        routes.lead_into(prefix.address(), covers)
    })
}
