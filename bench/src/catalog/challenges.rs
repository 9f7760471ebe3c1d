//! Cases with a challenge, in which no packet is challenged. At most a tenth of the baseline is
//! what it may cost, unless classes are asked for.

use ratelimit_core::ip_family::IpFamily;

use super::{CONFORMING, WIDE, destinations::DESTINATION, policy};
use crate::{
    goal::Goal,
    scenario::{self, Case, Scenario},
    store::Store,
    traffic::{self, Content, Sources, Traffic},
};

/// High enough that the challenge stays off, although several CPUs send.
const TCP: &str = "[challenge.tcp]\nwhen = \"over 16_000_000 syn/s\"\n";
const DNS: &str = "[challenge.dns]\nwhen = \"over 16_000_000 packets/s\"\n";
const TCP_ALWAYS: &str = "[challenge.tcp]\nwhen = \"always\"\n";
const DNS_ALWAYS: &str = "[challenge.dns]\nwhen = \"always\"\n";

const SYNCOOKIE: &str = "method = \"syncookie\"\n";
const OF_CLASS: &str = "classes = [\"long\"]\n\
                        [class.long]\nprotocol = \"tcp\"\nlength = \"1000-1400\"\n";

/// Packets that a challenge may ask about, and others.
const CONTENTS: [Content; 4] = [
    Content::Datagrams,
    Content::Queries,
    Content::Acknowledgements,
    Content::Syns,
];
const ACKNOWLEDGEMENTS: [Content; 1] = [Content::Acknowledgements];
const SYNS: [Content; 1] = [Content::Syns];

/// One source, while the challenge may be on, or is.
pub fn scenarios(store: Store) -> Vec<Scenario> {
    let by = |name, challenge: &str, contents: &[Content]| {
        unchallenged(store, name, "pass", &policy(WIDE), challenge, contents)
    };
    let [elsewhere, here] = ["203.0.113.7", DESTINATION]
        .map(|to| format!("{TCP}destinations = [\"{to}\"]\nports = [443]\n{DNS}"));
    vec![
        by("challenge-idle", &format!("{TCP}{DNS}"), &CONTENTS),
        by("challenge-elsewhere", &elsewhere, &SYNS),
        by("challenge-here", &here, &SYNS),
        by(
            "challenge-syncookie",
            &format!("{TCP}{SYNCOOKIE}"),
            &ACKNOWLEDGEMENTS,
        ),
        of_classes(store),
        by(
            "challenge",
            TCP_ALWAYS,
            &[Content::Datagrams, Content::Acknowledgements],
        ),
        by("challenge-dns", &format!("{TCP}{DNS_ALWAYS}"), &SYNS),
        by("challenge-dns-alone", DNS_ALWAYS, &SYNS),
        verified(by(
            "verified",
            &format!("{TCP_ALWAYS}{DNS_ALWAYS}"),
            &[Content::Queries, Content::Syns],
        )),
        verified(by(
            "verified-syncookie",
            &format!("{TCP_ALWAYS}{SYNCOOKIE}"),
            &ACKNOWLEDGEMENTS,
        )),
    ]
    .into_iter()
    .chain(preferring(store))
    .collect()
}

/// These packets of one source, none of which is challenged, beside the scenario of another name
/// without a challenge.
fn unchallenged(
    store: Store,
    name: &str,
    beside: &str,
    limits: &str,
    challenge: &str,
    contents: &[Content],
) -> Scenario {
    let scenario = Scenario::new(store, name, format!("{limits}\n{challenge}"));
    contents.iter().fold(scenario, |scenario, content| {
        let hot = Traffic::new(IpFamily::V4, Sources::Hot).of(*content);
        let alone = scenario::name(store, beside, hot);
        let case = Case::new(hot, CONFORMING).goal(Goal::Plus(0.1, alone));
        scenario.case(case.core())
    })
}

/// SYNs of a class alone are challenged: each is classified for it, by its headers.
fn of_classes(store: Store) -> Scenario {
    let challenge = format!("{TCP}{OF_CLASS}");
    let syns = Traffic::new(IpFamily::V4, Sources::Hot).of(Content::Syns);
    unchallenged(
        store,
        "challenge-classes",
        "pass",
        &policy(WIDE),
        &challenge,
        &ACKNOWLEDGEMENTS,
    )
    .case(Case::new(syns, CONFORMING))
}

/// A limit of the node, of which verified sources draw first; and the same limit without a
/// challenge.
fn preferring(store: Store) -> [Scenario; 3] {
    let node = format!("{}\n[node]\nlimits = [{WIDE}]\n", policy(WIDE));
    let alone = CONTENTS.into_iter().fold(
        Scenario::new(store, "node", node.clone()),
        |scenario, of| {
            let hot = Traffic::new(IpFamily::V4, Sources::Hot).of(of);
            scenario.case(Case::new(hot, CONFORMING).core())
        },
    );
    let prefer = format!("{node}prefer = \"verified\"\n");
    let by = |name, challenge: &str, contents| {
        unchallenged(store, name, "node", &prefer, challenge, contents)
    };
    [
        alone,
        by("prefer-idle", &format!("{TCP}{SYNCOOKIE}{DNS}"), &CONTENTS),
        verified(by(
            "prefer",
            &format!("{TCP_ALWAYS}{SYNCOOKIE}"),
            &ACKNOWLEDGEMENTS,
        )),
    ]
}

/// The same cases with a verified source.
fn verified(scenario: Scenario) -> Scenario {
    let sources = scenario.cases.iter().map(|case| case.traffic.first);
    let verified = sources.take(1).map(traffic::ipv4).collect();
    Scenario {
        verified,
        ..scenario
    }
}
