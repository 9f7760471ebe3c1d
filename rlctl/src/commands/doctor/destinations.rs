//! Whether packets to the destinations that have limits or classes have a way through this host.

use ratelimit_core::{config::Config, prefix::Prefix};
use ratelimit_interface::route::Routes;

use super::finding::Finding;

const CHECK: &str = "destinations";

/// Returns the configured destinations that are not routed here. `None` if there are none.
pub fn examine(config: &Config) -> Option<Finding> {
    config.named_destinations().next()?;
    let strays = match elsewhere(config) {
        Ok(strays) => strays,
        Err(error) => return Some(Finding::unknown(CHECK, "unread", format!("{error:#}"))),
    };
    let Some((title, first)) = strays.first() else {
        let count = config.named_destinations().count();
        return Some(Finding::ok(CHECK, format!("{count}, all routed here")));
    };
    let found = match strays.len() {
        1 => format!("{first} is not routed here"),
        count => format!("{first} and {} more are not routed here", count - 1),
    };
    let why = format!(
        "{title} only counts packets that reach this host, but it is neither an address of this \
         host nor routed here"
    );
    let fix = format!("ip route get {}", first.address());
    Some(Finding::warning(CHECK, found, why).fix(fix))
}

fn elsewhere(config: &Config) -> anyhow::Result<Vec<(String, Prefix)>> {
    let routes = Routes::read()?;
    config.destinations_elsewhere(|prefix| {
        let covers = |address| prefix.covers(Prefix::from(address));
        routes.lead_into(prefix.address(), covers)
    })
}
