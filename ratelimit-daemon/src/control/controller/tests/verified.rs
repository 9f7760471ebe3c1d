//! Sources that proved themselves: those that other nodes are told of, and those that they told of.

use std::net::IpAddr;

use ratelimit_common::{
    challenge::{Verified, When},
    layout::VERIFIED_MAX,
};
use ratelimit_core::{
    challenge::{Challenge, Way},
    limit::Scope,
};

use super::*;

const LASTS: Duration = Duration::from_mins(10);

fn challenging(scope: Scope) -> Config {
    challenging_by(Way::Rst, scope)
}

fn challenging_by(way: Way, scope: Scope) -> Config {
    let challenge = Challenge {
        connections: When::Always,
        queries: When::Never,
        destinations: Vec::new(),
        connection_ports: Vec::new(),
        classes: Vec::new(),
        ports: Vec::new(),
        lasts: LASTS,
        answers: NonZeroU32::new(1000).unwrap(),
        way,
        window_scaling: false,
        scope,
        back_off: None,
    };
    Config {
        challenge: Some(challenge),
        ..config()
    }
}

fn take_over(lab: &mut Lab, told: &[(&str, u64)]) -> usize {
    let told = told.iter();
    let told: Vec<_> = told
        .map(|(source, seconds)| (prefix(source), Duration::from_secs(*seconds)))
        .collect();
    let Controller { feeds, state, .. } = &mut lab.controller;
    feeds.verified.take_over(state, &told)
}

/// Seconds for which a source is verified here on the word of another node.
fn left(lab: &Lab, source: &str) -> Option<u64> {
    let source: IpAddr = source.parse().unwrap();
    let verified = lab.memory().verified.get(&source).copied()?;
    assert!(verified.is_by_peer());
    let left = verified.until().as_nanos() - clock::now().as_nanos();
    Some(left.div_ceil(1_000_000_000))
}

#[test]
fn what_other_nodes_verified_is_so_here_within_what_this_node_says() {
    let mut lab = Lab::new(challenging(Scope::Cluster));
    lab.ban(&["198.51.100.0/24"], Some(600.0)).unwrap();
    let told = [
        ("192.0.2.1", 30),
        // For no longer than `for`.
        ("192.0.2.2", 3600),
        // An address of a source that is a /64 here.
        ("2001:db8::5", 30),
        // Of a banned source, and more than a source.
        ("198.51.100.7", 30),
        ("192.0.2.0/24", 30),
        ("2001:db8::/48", 30),
    ];
    assert_eq!(take_over(&mut lab, &told), 3);
    let known = ["192.0.2.1", "192.0.2.2", "2001:db8::"].map(|it| left(&lab, it));
    assert_eq!(known, [Some(30), Some(600), Some(30)]);
    for unknown in ["198.51.100.7", "192.0.2.0", "2001:db8::5"] {
        assert_eq!(left(&lab, unknown), None, "{unknown}");
    }
    assert_eq!(lab.controller.feeds.verified.count(), (0, 3));
    // Those who keep to themselves, and those who challenge nobody, take nothing.
    for config in [challenging(Scope::Node), config()] {
        let mut lab = Lab::new(config);
        assert_eq!(take_over(&mut lab, &told[..1]), 1);
        assert_eq!(left(&lab, "192.0.2.1"), None);
    }
}

#[test]
fn a_proof_of_another_node_is_one_by_the_way_of_this_node() {
    for (way, is_by_reset) in [(Way::Rst, true), (Way::Syncookie, false)] {
        let mut lab = Lab::new(challenging_by(way, Scope::Cluster));
        assert_eq!(take_over(&mut lab, &[("192.0.2.1", 30)]), 0);
        let source: IpAddr = "192.0.2.1".parse().unwrap();
        let verified = lab.memory().verified[&source];
        assert_eq!(verified.is_by_reset(), is_by_reset, "{way:?}");
    }
}

#[test]
fn other_nodes_have_half_of_the_room_of_a_family() {
    let mut lab = Lab::new(challenging(Scope::Cluster));
    let told: Vec<_> = (0..VERIFIED_MAX)
        .map(|number| {
            let source = IpAddr::V4((0x0a00_0000 + number).into());
            (Prefix::from(source), Duration::from_mins(1))
        })
        .collect();
    let Controller { feeds, state, .. } = &mut lab.controller;
    let denied = feeds.verified.take_over(state, &told);
    assert_eq!(denied, VERIFIED_MAX as usize / 2);
    assert_eq!(lab.memory().verified.len(), denied);
    assert_eq!(take_over(&mut lab, &[("192.0.2.1", 30)]), 1);
    assert_eq!(take_over(&mut lab, &[("2001:db8::", 30)]), 0);
}

#[test]
fn who_proves_itself_here_is_told_once_and_who_did_elsewhere_is_not() {
    let mut lab = Lab::new(challenging(Scope::Cluster));
    let in_nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap();
    let prove = |lab: &Lab, sources: &[(&str, bool)], proofs: u64| {
        let mut memory = lab.memory();
        let until = Instant::from_nanos(clock::now().as_nanos() + in_nanos(LASTS));
        for (source, is_by_peer) in sources {
            let verified = if *is_by_peer {
                Verified::by_peer(until)
            } else {
                Verified::here(until)
            };
            memory.verified.insert(source.parse().unwrap(), verified);
        }
        memory.proofs = proofs;
    };
    let look = |lab: &mut Lab| {
        let Controller { feeds, state, .. } = &mut lab.controller;
        let fresh = feeds.verified.look(state).into_iter();
        fresh
            .map(|(source, _)| source.to_string())
            .collect::<Vec<_>>()
    };
    prove(&lab, &[("192.0.2.1", false)], 1);
    thread::sleep(Duration::from_millis(30));
    // Before the first look nobody knows what was told.
    assert_eq!(look(&mut lab), Vec::<String>::new());
    prove(&lab, &[("192.0.2.2", false), ("192.0.2.3", true)], 2);
    // It is too new.
    assert_eq!(look(&mut lab), Vec::<String>::new());
    thread::sleep(Duration::from_millis(30));
    assert_eq!(look(&mut lab), ["192.0.2.2"]);
    assert_eq!(look(&mut lab), Vec::<String>::new());
    assert_eq!(lab.controller.feeds.verified.count(), (2, 1));
    let told = lab.controller.status().challenge.unwrap();
    assert_eq!((told.verified_here, told.verified_by_peers), (2, 1));
    // What is over is not counted.
    let past = Verified::here(Instant::from_nanos(clock::now().as_nanos() - 1_000));
    let mut memory = lab.memory();
    memory.verified.insert("192.0.2.1".parse().unwrap(), past);
    memory.proofs = 3;
    drop(memory);
    look(&mut lab);
    assert_eq!(lab.controller.feeds.verified.count(), (1, 1));
}
