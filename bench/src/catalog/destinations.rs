//! Cases with limits of destinations.

use std::fmt::Write;

use ratelimit_core::ip_family::IpFamily;

use super::{CONFORMING, WIDE, policy};
use crate::{
    goal::Goal,
    scenario::{self, Case, Scenario},
    store::Store,
    traffic::{Sources, Traffic},
};

/// Destinations that have a limit each.
const COUNT: u32 = 10_000;
/// The destination of the packets.
pub const DESTINATION: &str = "198.51.100.1";

/// One source and 65,536, whose packets go to an address in the /16 of all destinations that is
/// none itself, or to a destination.
pub fn scenarios(store: Store) -> [Scenario; 2] {
    [
        ("destinations", None),
        ("to-destination", Some(DESTINATION)),
    ]
    .map(|(name, own)| {
        let mut toml = policy(WIDE);
        let others = (0..COUNT).map(|number| format!("198.51.{}.{}", number / 250, number % 250));
        let own = own.map(str::to_owned);
        for address in own.into_iter().chain(others).take(COUNT as usize) {
            let _ = write!(toml, "\n[destination.\"{address}\"]\nlimits = [{WIDE}]");
        }
        let hot = Traffic::new(IpFamily::V4, Sources::Hot);
        let goal = Goal::Plus(0.4, scenario::name(store, "pass", hot));
        let many = Traffic::new(IpFamily::V4, Sources::Many);
        Scenario::new(store, name, toml)
            .case(Case::new(hot, CONFORMING).goal(goal).core())
            .case(Case::new(many, CONFORMING).core())
    })
}
