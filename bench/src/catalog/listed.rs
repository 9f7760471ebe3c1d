//! Cases with lists: bans, allows, prefixes that the traffic passes by, policies of prefixes.

use std::fmt::Write;

use ratelimit_daemon::datapath::IpFamily;

use super::{CONFORMING, LAYERS, WIDE, goal, policy};
use crate::{
    goal::Goal,
    lists,
    scenario::{self, Case, Scenario},
    store::Store,
    traffic::{FIRST, Sources, Traffic},
};

/// The sources of the next /16, which a prefix covers, while the first source is listed by its address.
const COVERED: u32 = FIRST + (1 << 16);
/// Prefixes that have a policy: each is 4 of 65,536 sources.
const PREFIXES_WITH_POLICY: u32 = 1 << 14;

/// The scenarios with lists.
pub fn scenarios(store: Store) -> Vec<Scenario> {
    let (addresses, prefixes) = listed();
    let banned = Scenario {
        bans: [addresses.clone(), prefixes.clone()].concat(),
        ..of(store, "banned")
    };
    let allowed = Scenario {
        allows: [addresses, prefixes].concat(),
        ..of(store, "allowed")
    };
    let mut scenarios = vec![
        by_entry(banned, "banned", 3.0),
        by_entry(allowed, "allowed", 3.0),
    ];
    let goals = [(100, 1.0, 3.0), (10_000, 1.0, 3.0), (1_000_000, 1.5, 6.0)];
    scenarios.extend(goals.map(|(count, hot, flood)| passed_by(store, count, hot, flood)));
    scenarios.extend([1, 100, 10_000].map(|count| policies(store, count)));
    scenarios
}

type Prefixes = Vec<ratelimit_daemon::prefix::Prefix>;

/// One address and one /16 (/48) of each family.
fn listed() -> (Prefixes, Prefixes) {
    let address = |family| match family {
        IpFamily::V4 => std::net::IpAddr::V4(crate::traffic::ipv4(FIRST)).into(),
        IpFamily::V6 => std::net::IpAddr::V6(crate::traffic::ipv6(FIRST)).into(),
    };
    let prefix = |family| lists::prefix(family, COVERED, 16);
    (
        IpFamily::ALL.map(address).to_vec(),
        IpFamily::ALL.map(prefix).to_vec(),
    )
}

fn of(store: Store, name: &str) -> Scenario {
    Scenario::new(store, name, policy(WIDE))
}

/// A source that is listed by its address, one by a prefix, and many by a prefix.
fn by_entry(mut scenario: Scenario, reason: &'static str, hot: f64) -> Scenario {
    for family in IpFamily::ALL {
        let listed = Traffic::new(family, Sources::Hot);
        let goal = goal(scenario.store, &scenario.name, listed, Goal::AtMost(hot));
        let case = Case::new(listed, reason).goal(goal);
        scenario = scenario
            .case(if family == IpFamily::V4 {
                case.core()
            } else {
                case
            })
            .case(
                Case::new(Traffic::new(family, Sources::Hot).from(COVERED), reason)
                    .goal(Goal::AtMost(hot)),
            )
            .case(Case::new(
                Traffic::new(family, Sources::Many).from(COVERED),
                reason,
            ));
    }
    scenario
}

/// Bans that the traffic passes by. The hot source lies beside one of them, so that the guard in front lets it through.
fn passed_by(store: Store, count: usize, hot: f64, flood: f64) -> Scenario {
    let bans = IpFamily::ALL
        .map(|family| lists::random(family, count))
        .concat();
    let mut scenario = Scenario {
        bans,
        ..of(store, &format!("bans-{count}"))
    };
    for family in IpFamily::ALL {
        for (sources, more) in [(Sources::Hot, hot), (Sources::Flood, flood)] {
            let traffic = Traffic::new(family, sources);
            let goal = Goal::Plus(more, scenario::name(store, "pass", traffic));
            let case = Case::new(traffic, CONFORMING).goal(goal);
            let is_core = count == 10_000 && family == IpFamily::V4;
            scenario = scenario.case(if is_core { case.core() } else { case });
        }
    }
    scenario
}

/// The same prefixes, divided among `count` policies. How many there are is to cost nothing.
fn policies(store: Store, count: u32) -> Scenario {
    let mut toml = policy(WIDE);
    let per_policy = PREFIXES_WITH_POLICY / count;
    for index in 0..count {
        // The last one has what is left over.
        let end = if index + 1 == count {
            PREFIXES_WITH_POLICY
        } else {
            (index + 1) * per_policy
        };
        let prefixes = (index * per_policy..end)
            .map(|number| lists::prefix(IpFamily::V4, FIRST + 4 * number, 30));
        let quoted: Vec<_> = prefixes.map(|prefix| format!("\"{prefix}\"")).collect();
        let limit = LAYERS[index as usize % LAYERS.len()];
        let sources = quoted.join(", ");
        let _ = writeln!(
            toml,
            "\n[policy.p{index}]\nsources = [{sources}]\nlimits = [{limit}]"
        );
    }
    let mut scenario = Scenario::new(store, format!("policies-{count}"), toml);
    for sources in [Sources::Hot, Sources::Many] {
        let traffic = Traffic::new(IpFamily::V4, sources);
        let case = Case::new(traffic, CONFORMING);
        scenario = scenario.case(match count {
            1 => case,
            _ => case.goal(Goal::Times(
                1.1,
                scenario::name(store, "policies-1", traffic),
            )),
        });
    }
    scenario
}
