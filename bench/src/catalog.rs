//! Every case that is measured by `BPF_PROG_TEST_RUN`.

mod challenges;
mod destinations;
mod listed;
mod tunnels;

use ratelimit_core::ip_family::IpFamily;

use crate::{
    goal::Goal,
    scenario::{self, Case, NewSources, Scenario},
    store::Store,
    traffic::{Content, Cpus, Sources, Traffic},
};

/// A limit that no packet meets.
pub const WIDE: &str = "{ packets = 100_000_000, per = \"1s\" }";
/// A limit that every packet of a source but the first meets.
const NARROW: &str = "{ packets = 1, per = \"1h\" }";
/// A ban that no source gets: the packets are of no connection.
const BAN: &str = "ban = { after = 16_000_000, within = \"1m\", for = \"1s\" }";
/// The sources that can have state where a million of them send.
pub const ROOMY: u32 = 2_000_000;
/// Limits that no packet meets, of different windows.
const LAYERS: [&str; 8] = [
    WIDE,
    "{ packets = 200_000_000, per = \"2s\" }",
    "{ packets = 400_000_000, per = \"4s\" }",
    "{ packets = 1_000_000_000, per = \"10s\" }",
    "{ packets = 2_000_000_000, per = \"20s\" }",
    "{ packets = 3_000_000_000, per = \"30s\" }",
    "{ packets = 6_000_000_000, per = \"1m\" }",
    "{ packets = 12_000_000_000, per = \"2m\" }",
];

/// A cluster whose store is not there.
const CLUSTER: &str = "[cluster]\nurl = \"/run/no-store.sock\"\nnode = \"bench\"\nnodes = 1\n\
                       secret = \"0123456789abcdef\"\n";

const CONFORMING: &str = "conforming";
const LIMITED: &str = "limited";
const NEW_SOURCES: &str = "new-sources";

/// The scenarios of a store.
pub fn scenarios(store: Store) -> Vec<Scenario> {
    let mut scenarios = vec![
        pass(store),
        flood(store),
        roomy(store, "pass", WIDE, CONFORMING),
        limited(store),
        roomy(store, "limited", NARROW, LIMITED),
    ];
    scenarios.extend(new_sources(store));
    scenarios.extend([2, 4, 8].map(|count| layers(store, count)));
    scenarios.extend(["sliding-window", "token-bucket"].map(|name| algorithm(store, name)));
    scenarios.extend([banning(store), banning_the_limited(store)]);
    scenarios.extend([in_cluster(store), shared(store)]);
    scenarios.extend(challenges::scenarios(store));
    scenarios.extend(listed::scenarios(store));
    scenarios.extend(destinations::scenarios(store));
    scenarios.push(tunnels::looked_into(store));
    scenarios
}

/// One source on a node of a cluster that shares no limit. It costs the same as without a cluster.
fn in_cluster(store: Store) -> Scenario {
    let hot = Traffic::new(IpFamily::V4, Sources::Hot);
    let alone = scenario::name(store, "pass", hot);
    let case = Case::new(hot, CONFORMING).goal(Goal::Times(1.03, alone));
    let toml = format!("{}\n{CLUSTER}", policy(WIDE));
    Scenario::new(store, "in-cluster", toml).case(case.core())
}

/// One source with a limit that nodes share. Until it is refused for the first time, it costs the
/// same as without a cluster.
fn shared(store: Store) -> Scenario {
    let limit = WIDE.replace(" }", ", scope = \"cluster\" }");
    let toml = format!("{}\n{CLUSTER}", policy(&limit));
    let hot = Traffic::new(IpFamily::V4, Sources::Hot);
    let alone = scenario::name(store, "pass", hot);
    let case = Case::new(hot, CONFORMING).goal(Goal::Times(1.03, alone));
    Scenario::new(store, "shared", toml).case(case.core())
}

/// The policy of all sources.
pub fn policy(limits: &str) -> String {
    format!("[policy.default]\nlimits = [{limits}]")
}

/// IPv4 is to cost what the store's goals say, IPv6 at most 1.2 times that.
fn goal(store: Store, scenario: &str, traffic: Traffic, ipv4: Goal) -> Goal {
    match traffic.family {
        IpFamily::V4 => ipv4,
        IpFamily::V6 => {
            let twin = Traffic {
                family: IpFamily::V4,
                ..traffic
            };
            Goal::Times(1.2, scenario::name(store, scenario, twin))
        }
    }
}

fn pass(store: Store) -> Scenario {
    let mut scenario = Scenario::new(store, "pass", policy(WIDE));
    let goals = store.goals();
    for family in IpFamily::ALL {
        let at = |sources| Traffic::new(family, sources);
        let with = |sources, ipv4: Option<Goal>| {
            let goal = |ipv4| goal(store, "pass", at(sources), ipv4);
            Case::new(at(sources), CONFORMING).maybe_goal(ipv4.map(goal))
        };
        scenario = scenario
            .case(with(Sources::Hot, Some(goals.hot.clone())).core())
            .case(Case::new(at(Sources::Thousand), CONFORMING))
            .case(with(Sources::Many, goals.many.clone()).core());
    }
    for content in [Content::Queries, Content::Acknowledgements, Content::Syns] {
        let packets = Traffic::new(IpFamily::V4, Sources::Hot).of(content);
        scenario = scenario.case(Case::new(packets, CONFORMING).core());
    }
    on_two_cpus(scenario, CONFORMING)
}

/// Two CPUs: with sources of their own as fast as one, with the same source no worse than twice.
fn on_two_cpus(mut scenario: Scenario, reason: &'static str) -> Scenario {
    let hot = Traffic::new(IpFamily::V4, Sources::Hot);
    let alone = scenario::name(scenario.store, &scenario.name, hot);
    for (cpus, factor) in [(Cpus::TwoApart, 1.1), (Cpus::TwoShared, 2.0)] {
        let goal = Goal::Times(factor, alone.clone());
        scenario = scenario.case(Case::new(hot.on(cpus), reason).goal(goal).core());
    }
    scenario
}

/// A flood has an installation to itself: it evicts other sources. Over the default budget of
/// `lru`, it passes without state.
fn flood(store: Store) -> Scenario {
    let scenario = Scenario::new(store, "pass", policy(WIDE));
    let mut scenario = scenario.new_sources(NewSources::Default);
    for family in IpFamily::ALL {
        let traffic = Traffic::new(family, Sources::Flood);
        let goal = goal(store, "pass", traffic, store.goals().flood);
        let case = Case::new(traffic, of_flood(store)).goal(goal);
        scenario = scenario.case(if family == IpFamily::V4 {
            case.core()
        } else {
            case
        });
    }
    scenario
}

/// The reason of nearly all packets of a flood, where the budget for new sources is the default.
const fn of_flood(store: Store) -> &'static str {
    match store {
        Store::Lru => NEW_SOURCES,
        Store::Compact => CONFORMING,
    }
}

/// A flood of which each source gets state, or nearly none.
fn new_sources(store: Store) -> [Scenario; 2] {
    let traffic = Traffic::new(IpFamily::V4, Sources::Flood);
    [
        ("unlimited", NewSources::Unlimited, CONFORMING),
        ("new-sources", NewSources::Few, NEW_SOURCES),
    ]
    .map(|(name, new_sources, reason)| {
        let scenario = Scenario::new(store, name, policy(WIDE)).new_sources(new_sources);
        scenario.case(Case::new(traffic, reason))
    })
}

fn roomy(store: Store, name: &str, limit: &str, reason: &'static str) -> Scenario {
    let mut scenario = Scenario::new(store, name, policy(limit)).capacity(ROOMY);
    for family in IpFamily::ALL {
        let traffic = Traffic::new(family, Sources::Million);
        let goal = goal(store, name, traffic, store.goals().million);
        scenario = scenario.case(Case::new(traffic, reason).goal(goal));
    }
    scenario
}

fn limited(store: Store) -> Scenario {
    let mut scenario = Scenario::new(store, "limited", policy(NARROW));
    for family in IpFamily::ALL {
        let hot = Traffic::new(family, Sources::Hot);
        let goal = goal(store, "limited", hot, store.goals().limited);
        scenario = scenario.case(Case::new(hot, LIMITED).goal(goal).core());
        for sources in [Sources::Thousand, Sources::Many] {
            scenario = scenario.case(Case::new(Traffic::new(family, sources), LIMITED));
        }
    }
    on_two_cpus(scenario, LIMITED)
}

/// A policy that bans, without bans: each source is looked up among the bans.
fn banning(store: Store) -> Scenario {
    let mut scenario = Scenario::new(store, "ban", format!("{}\n{BAN}", policy(WIDE)));
    for family in IpFamily::ALL {
        for sources in [Sources::Hot, Sources::Many] {
            let traffic = Traffic::new(family, sources);
            let goal = Goal::Plus(0.5, scenario::name(store, "pass", traffic));
            scenario = scenario.case(Case::new(traffic, CONFORMING).goal(goal));
        }
    }
    scenario
}

/// A policy that would ban, and whose sources make strikes all the time.
fn banning_the_limited(store: Store) -> Scenario {
    let toml = format!("{}\n{BAN}", policy(NARROW));
    let mut scenario = Scenario::new(store, "ban-limited", toml);
    for family in IpFamily::ALL {
        let hot = Traffic::new(family, Sources::Hot);
        scenario = scenario.case(Case::new(hot, LIMITED));
    }
    scenario
}

/// Several limits in the policy: each beyond the first costs at most 0.6 more, and eight of them 7.
fn layers(store: Store, count: usize) -> Scenario {
    let limits = LAYERS[..count].join(", ");
    let mut scenario = Scenario::new(store, format!("limits-{count}"), policy(&limits));
    for family in IpFamily::ALL {
        let hot = Traffic::new(family, Sources::Hot);
        #[expect(clippy::cast_precision_loss, reason = "a handful")]
        let more = (0.6 * (count - 1) as f64 * 10.0).round() / 10.0;
        let ipv4 = match count {
            8 => Goal::AtMost(7.0),
            _ => Goal::Plus(more, scenario::name(store, "pass", hot)),
        };
        let goal = goal(store, &scenario.name, hot, ipv4);
        let case = Case::new(hot, CONFORMING).goal(goal);
        let is_core = count == 8 && family == IpFamily::V4;
        scenario = scenario
            .case(if is_core { case.core() } else { case })
            .case(Case::new(Traffic::new(family, Sources::Many), CONFORMING));
    }
    scenario
}

/// The other algorithms, beside the fixed window that all else has.
fn algorithm(store: Store, name: &str) -> Scenario {
    let limit = WIDE.replace('}', &format!(", algorithm = \"{name}\" }}"));
    let hot = Traffic::new(IpFamily::V4, Sources::Hot);
    let many = Traffic::new(IpFamily::V4, Sources::Many);
    Scenario::new(store, name, policy(&limit))
        .case(Case::new(hot, CONFORMING).goal(store.goals().hot))
        .case(Case::new(many, CONFORMING).maybe_goal(store.goals().many))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_and_goals_refer_to_cases_that_exist() {
        let scenarios: Vec<_> = Store::ALL.into_iter().flat_map(scenarios).collect();
        let mut names = HashSet::new();
        for scenario in &scenarios {
            for case in &scenario.cases {
                let name = scenario.name_of(case);
                assert!(names.insert(name.clone()), "{name} is there twice");
            }
        }
        for case in scenarios.iter().flat_map(|scenario| &scenario.cases) {
            if let Some(Goal::Times(_, name) | Goal::Plus(_, name)) = &case.goal {
                assert!(names.contains(name), "there is no {name}");
            }
        }
    }
}
