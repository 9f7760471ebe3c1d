//! Sources with as many TCP connections as they may have.

use std::num::NonZeroU32;

use ratelimit_core::{
    config::PolicyConfig,
    detection::{Answer, Kind},
    intent::renewed::later,
};

use super::{
    attacks::{answering, texts},
    *,
};
use crate::control::commands::{Command, NoteConnections};

#[test]
fn a_source_is_limited_while_it_has_as_many_connections_as_its_policy_permits() {
    let mut lab = Lab::new(limiting());
    lab.count(&[("192.0.2.1", 19), ("203.0.113.7", 39)]);
    assert_eq!(lab.full(), []);
    lab.count(&[("192.0.2.1", 20), ("203.0.113.7", 40)]);
    assert_eq!(lab.full(), ["192.0.2.1", "203.0.113.7"].map(prefix));
    let limited = lab.checked("192.0.2.1").limited.unwrap();
    assert_eq!(limited.kind, None);
    assert_eq!(
        limited.limit.to_string(),
        "1B per 1h (fixed-window) of tcp-syn"
    );
    // It lasts, and is renewed without another event, also by the next daemon.
    let events = lab.events().len();
    lab.count(&[("192.0.2.1", 33)]);
    assert_eq!(lab.full(), ["192.0.2.1"].map(prefix));
    assert_eq!(lab.events().len(), events + 1, "the other one is not");
    let row = |lab: &Lab| lab.state.intent.limited()[&prefix("192.0.2.1")].clone();
    let mut ending = row(&lab);
    ending.until = later(clock::now(), Duration::from_secs(20));
    lab.edit(&[Edit::Limited(prefix("192.0.2.1"), Some(ending.clone()))]);
    lab.count(&[("192.0.2.1", 33)]);
    assert!(row(&lab).until > ending.until);
    assert_eq!(lab.events().len(), events + 1);
    lab.restart();
    lab.count(&[("192.0.2.1", 33)]);
    lab.count(&[]);
    assert_eq!(lab.full(), []);
}

#[test]
fn only_a_policy_that_is_in_force_limits_connections() {
    let count = |config: Config| {
        let mut lab = Lab::new(config);
        lab.count(&[("192.0.2.1", 99), ("192.0.2.2", 99)]);
        lab.full()
    };
    let both = ["192.0.2.1", "192.0.2.2"].map(prefix);
    assert_eq!(count(limiting()), both);
    let mut allowing = limiting();
    allowing.allow = vec![prefix("192.0.2.1")];
    assert_eq!(count(allowing), both[1..]);
    let mut observing = limiting();
    observing.observe = true;
    assert_eq!(count(observing), []);
    let mut observing = limiting();
    observing.default_policy.observe = true;
    assert_eq!(count(observing), []);
    let mut lab = Lab::new(limiting());
    lab.count(&[("192.0.2.1", 99)]);
    lab.restart_with(config());
    lab.count(&[]);
    assert_eq!(lab.full(), []);
}

#[test]
fn the_limits_of_an_attack_and_of_connections_hold_together() {
    let [of_attack, of_connections] = ["5 packets per 1s", "1B per 1h (fixed-window) of tcp-syn"];
    let mut config = limiting();
    config.attacks = answering(Answer::Limit).attacks;
    let mut lab = Lab::new(config);
    let further = |lab: &Lab| {
        let known = texts(lab, "192.0.2.9").len();
        texts(lab, "192.0.2.1").split_off(known)
    };
    lab.count(&[("192.0.2.1", 99)]);
    assert_eq!(further(&lab), [of_connections]);
    lab.blame(&["192.0.2.1"]);
    let limited = lab.checked("192.0.2.1").limited.unwrap();
    assert_eq!(limited.kind, Some(Kind::HeavyHitter));
    for _ in 0..2 {
        assert_eq!(further(&lab), [of_attack, of_connections]);
        lab.count(&[("192.0.2.1", 0)]);
        assert_eq!(further(&lab), [of_attack]);
        lab.count(&[("192.0.2.1", 99)]);
    }
    assert_eq!(further(&lab), [of_attack, of_connections]);
}

#[test]
fn connections_that_cannot_be_counted_are_reported() {
    let mut lab = Lab::new(limiting());
    NoteConnections(Err("no netlink".to_owned())).run(&mut lab);
    let troubles = lab.status().troubles;
    assert_eq!(troubles.len(), 1);
    assert_eq!(troubles[0].error, "cannot count connections: no netlink");
    lab.count(&[]);
    assert_eq!(lab.status().troubles, []);
}

#[test]
fn sources_that_find_no_room_are_reported() {
    let mut lab = Lab::new(limiting());
    let all: BTreeMap<Prefix, u32> = (0..10_001u32)
        .map(|number| (IpAddr::V4((0x0b00_0000 + number).into()).into(), 20))
        .collect();
    NoteConnections(Ok(all)).run(&mut lab);
    assert_eq!(lab.full().len(), 10_000);
    assert_eq!(
        lab.status().troubles[0].error,
        "only 10000 of the sources with too many connections are limited"
    );
    lab.count(&[]);
    assert_eq!((lab.full(), lab.status().troubles), (vec![], vec![]));
}

impl Lab {
    fn count(&mut self, sources: &[(&str, u32)]) {
        let counted = sources
            .iter()
            .map(|(source, count)| (prefix(source), *count));
        NoteConnections(Ok(counted.collect())).run(self);
    }

    /// The limited sources.
    fn full(&self) -> Vec<Prefix> {
        self.state.intent.limited().keys().copied().collect()
    }
}

/// 20 connections for a source, and 40 for a partner.
fn limiting() -> Config {
    let mut config = config();
    config.default_policy.connections = NonZeroU32::new(20);
    let partner: &mut PolicyConfig = config.policies.get_mut("partner").unwrap();
    partner.connections = NonZeroU32::new(40);
    config
}
