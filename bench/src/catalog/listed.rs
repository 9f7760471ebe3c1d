//! Cases with lists: bans, allows, prefixes that the traffic passes by, policies of prefixes.

use std::{fmt::Write, net::IpAddr};

use ratelimit_common::layout::POLICY_SLOTS;
use ratelimit_core::{ip_family::IpFamily, prefix::Prefix};

use super::{CONFORMING, LAYERS, WIDE, goal, of_flood, policy};
use crate::{
    goal::Goal,
    lists,
    scenario::{self, Case, NewSources, Scenario},
    store::Store,
    traffic::{self, FIRST, Sources, Traffic},
};

/// The goal for a listed source.
const LISTED: Goal = Goal::AtMost(3.0);
/// The goal for counting a packet for its entry.
const COUNTED: f64 = 0.5;
/// The seed of the other listed addresses.
const SEED: u64 = 11;
/// Prefixes that have a policy: each is 4 of 65,536 sources.
const PREFIXES_WITH_POLICY: u32 = 1 << 14;

/// The scenarios with lists.
pub fn scenarios(store: Store) -> Vec<Scenario> {
    let mut scenarios = vec![];
    for (reason, list) in LISTS {
        scenarios.push(by_address(store, reason, list));
        scenarios.push(by_prefix(store, reason, list));
        scenarios.extend([false, true].map(|is| counted(store, reason, list, is)));
    }
    let goals = [(100, 1.0, 3.0), (10_000, 1.0, 3.0), (1_000_000, 1.5, 6.0)];
    for (count, hot, flood) in goals {
        scenarios.push(passed_by(store, count, Sources::Hot, hot));
        scenarios.push(passed_by(store, count, Sources::Flood, flood));
    }
    scenarios.extend([10_000, 1_000_000].map(|count| among(store, count)));
    scenarios.extend([1, 100, 10_000].map(|count| policies(store, count)));
    scenarios.push(wide_policy(store));
    scenarios
}

/// Puts prefixes on a list of a scenario.
type List = fn(&mut Scenario) -> &mut Vec<Prefix>;

/// The lists, by the reason of the matching packets.
const LISTS: [(&str, List); 2] = [
    ("banned", |scenario| &mut scenario.bans),
    ("allowed", |scenario| &mut scenario.allows),
];

fn of(store: Store, name: &str) -> Scenario {
    Scenario::new(store, name, policy(WIDE))
}

/// One source of each family, listed by its address.
fn by_address(store: Store, reason: &'static str, list: List) -> Scenario {
    let mut scenario = of(store, reason);
    let ipv6 = IpAddr::V6(traffic::ipv6(FIRST)).into();
    *list(&mut scenario) = vec![IpAddr::V4(traffic::ipv4(FIRST)).into(), ipv6];
    for family in IpFamily::ALL {
        let hot = Traffic::new(family, Sources::Hot);
        let case = Case::new(hot, reason).goal(goal(store, reason, hot, LISTED));
        scenario = scenario.case(match family {
            IpFamily::V4 => case.core(),
            IpFamily::V6 => case,
        });
    }
    scenario
}

/// One source and 65,536, listed by a prefix.
fn by_prefix(store: Store, reason: &'static str, list: List) -> Scenario {
    let name = format!("{reason}-prefix");
    let mut scenario = of(store, &name);
    *list(&mut scenario) = IpFamily::ALL
        .map(|family| lists::prefix(family, FIRST, 16))
        .to_vec();
    for family in IpFamily::ALL {
        let hot = Traffic::new(family, Sources::Hot);
        scenario = scenario
            .case(Case::new(hot, reason).goal(goal(store, &name, hot, LISTED)))
            .case(Case::new(Traffic::new(family, Sources::Many), reason));
    }
    scenario
}

/// One source and 65,536, listed by a prefix with or without a counter. More other prefixes are
/// listed than there are counters, and the last ones get none.
fn counted(store: Store, reason: &'static str, list: List, is_counted: bool) -> Scenario {
    let prefix = lists::prefix(IpFamily::V4, FIRST, 16);
    let mut prefixes = lists::addresses(SEED, POLICY_SLOTS as usize);
    let place = if is_counted { 0 } else { prefixes.len() };
    prefixes.insert(place, prefix);
    let name = |is| format!("{reason}-{}", if is { "counted" } else { "uncounted" });
    let mut scenario = of(store, &name(is_counted));
    *list(&mut scenario) = prefixes;
    scenario.counted = Some((prefix, is_counted));
    for sources in [Sources::Hot, Sources::Many] {
        let traffic = Traffic::new(IpFamily::V4, sources);
        let uncounted = scenario::name(store, &name(false), traffic);
        let goal = is_counted.then_some(Goal::Plus(COUNTED, uncounted));
        scenario = scenario.case(Case::new(traffic, reason).maybe_goal(goal));
    }
    scenario
}

/// Bans that the traffic passes by. The hot source shares a /16 (/48) with one of them, and no /24
/// (/56). A flood would evict it, so each has an installation to itself.
fn passed_by(store: Store, count: usize, sources: Sources, more: f64) -> Scenario {
    let is_flood = sources == Sources::Flood;
    let (new_sources, reason) = if is_flood {
        (NewSources::Default, of_flood(store))
    } else {
        (NewSources::Ample, CONFORMING)
    };
    let mut scenario = Scenario {
        new_sources,
        random_bans: count,
        ..of(store, &format!("bans-{count}"))
    };
    for family in IpFamily::ALL {
        let traffic = Traffic::new(family, sources);
        let goal = Goal::Plus(more, scenario::name(store, "pass", traffic));
        let case = Case::new(traffic, reason).goal(goal);
        let is_core = count == 10_000 && family == IpFamily::V4;
        scenario = scenario.case(if is_core { case.core() } else { case });
    }
    scenario
}

/// Bans that the traffic passes by, nearer: some of them lie in the /24 (/56) of the hot source.
fn among(store: Store, count: usize) -> Scenario {
    let mut bans = Vec::new();
    for family in IpFamily::ALL {
        let near = [(1, 32), (2, 31), (16, 28)];
        bans.extend(near.map(|(beside, length)| lists::prefix(family, FIRST + beside, length)));
    }
    let mut scenario = Scenario {
        bans,
        random_bans: count,
        ..of(store, &format!("among-{count}"))
    };
    for family in IpFamily::ALL {
        let hot = Traffic::new(family, Sources::Hot);
        let goal = Goal::Plus(
            if count > 10_000 { 1.5 } else { 1.0 },
            scenario::name(store, "pass", hot),
        );
        scenario = scenario.case(Case::new(hot, CONFORMING).goal(goal));
    }
    scenario
}

/// A policy for all that the sources lie in: a /8 (/40).
fn wide_policy(store: Store) -> Scenario {
    let sources = IpFamily::ALL.map(|family| format!("\"{}\"", lists::prefix(family, FIRST, 8)));
    let toml = format!(
        "{}\n[policy.wide]\nsources = [{}]\nlimits = [{WIDE}]",
        policy(WIDE),
        sources.join(", ")
    );
    let mut scenario = Scenario::new(store, "policy-wide", toml);
    for family in IpFamily::ALL {
        for sources in [Sources::Hot, Sources::Many] {
            let traffic = Traffic::new(family, sources);
            let goal = Goal::Plus(1.0, scenario::name(store, "pass", traffic));
            scenario = scenario.case(Case::new(traffic, CONFORMING).goal(goal));
        }
    }
    scenario
}

/// The same prefixes, divided among `count` policies, whose number should cost nothing.
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
