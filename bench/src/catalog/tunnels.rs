//! Cases where tunnels are looked into.

use ratelimit_core::ip_family::IpFamily;

use super::{CONFORMING, WIDE, policy};
use crate::{
    scenario::{Case, Scenario},
    store::Store,
    traffic::{Content, Sources, Traffic},
};

/// Every tunnel that there is.
const INNER: &str =
    "tunnels = [\"gre\", \"ipip\", \"vxlan:4789\", \"geneve:6081\", \"mpls\", \"pppoe\"]";

/// One source, whose packets are in a tunnel or not. The first lines of a configuration belong to
/// `[source]`.
pub fn looked_into(store: Store) -> Scenario {
    let scenario = Scenario::new(store, "inner", format!("{INNER}\n{}", policy(WIDE)));
    [Content::Datagrams, Content::InIp, Content::InVxlan]
        .into_iter()
        .fold(scenario, |scenario, content| {
            let hot = Traffic::new(IpFamily::V4, Sources::Hot).of(content);
            scenario.case(Case::new(hot, CONFORMING).core())
        })
}
