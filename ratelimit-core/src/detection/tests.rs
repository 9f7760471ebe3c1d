//! Attacks, and traffic that is none.

mod acknowledgements;
mod blame;
mod datagrams;
mod frames;
mod unseen;

use std::net::{IpAddr, Ipv4Addr};

use ratelimit_common::Instant;

use super::{
    content::{Content, Datagram},
    *,
};

const TARGET: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 10, 10, 10));
const CLIENT: u32 = 0xcb00_7109;
const START_NS: u64 = 1 << 40;
const SECOND_NS: u64 = 1_000_000_000;

#[test]
fn requests_of_forged_sources_are_a_syn_flood() {
    let attacks = named(traffic(600, |packet| (packet * 7919, Content::Request)));
    assert_eq!(attacks.len(), 1);
    assert_eq!(attacks[0].kind, Kind::SynFlood);
    assert_eq!(attacks[0].subject.to_string(), "to 10.10.10.10");
    assert_eq!(attacks[0].packets_per_second, 600);
    assert!(attacks[0].sources > 500);
}

#[test]
fn requests_of_one_source_are_a_syn_flood_and_it_is_to_blame() {
    let mut detector = detector();
    for sample in traffic(600, |_| (CLIENT, Content::Request)) {
        detector.take(&sample);
    }
    let step = detector.advance(after(1));
    let blamed = vec![(Kind::SynFlood, prefix("203.0.113.9"))];
    assert_eq!(step.to_blame, blamed);
}

#[test]
fn fewer_packets_than_the_rule_says_are_none() {
    check(traffic(499, |_| (CLIENT, Content::Request)), &[]);
    check(
        traffic(500, |_| (CLIENT, Content::Request)),
        &[Kind::SynFlood],
    );
}

#[test]
fn slow_requests_that_nobody_continues_with_are_an_attack_where_little_else_comes() {
    let forged = |packet| (packet * 7919, Content::Request);
    check(traffic(100, forged), &[Kind::SynFlood]);
    check(traffic(60, forged), &[]);
    let beside_clients = |packet| match packet % 4 {
        0 => (packet * 7919, Content::Request),
        _ => (packet, Content::Acknowledging),
    };
    check(traffic(400, beside_clients), &[]);
}

#[test]
fn requests_that_clients_continue_with_are_none() {
    let of_web = |packet| match packet % 5 {
        0 => (packet, Content::Request),
        _ => (packet, Content::Acknowledging),
    };
    check(traffic(50_000, of_web), &[]);
    // Nothing is asked: the connection is acknowledged, and closed.
    let empty = |packet| match packet % 3 {
        0 => (packet, Content::Request),
        1 => (packet, Content::Stray { port: 80 }),
        _ => (packet, Content::Acknowledging),
    };
    check(traffic(2_399, empty), &[]);
    let with_congestion_flags = |packet| match of_web(packet) {
        (source, Content::Request) => (source, Content::OddFlags),
        other => other,
    };
    check(traffic(50_000, with_congestion_flags), &[]);
}

/// In a burst some packets are sampled at first, and then one of 32 on average.
#[test]
fn connections_in_a_burst_are_none_whichever_of_their_packets_are_sampled() {
    const BURST: u32 = 200;
    let connections = |packet| match packet % 3 {
        0 => (CLIENT, Content::Request),
        1 => (CLIENT, Content::Stray { port: 80 }),
        _ => (CLIENT, Content::Acknowledging),
    };
    let mut random = 1u32;
    for all_up_to in [0, 16, 64] {
        for _ in 0..300 {
            let (mut left_out, mut skip) = (0, 0);
            let sampled = (0..).zip(traffic(2_000, connections));
            let sampled = sampled.filter_map(|(packet, sample)| {
                if packet % BURST >= all_up_to && left_out < skip {
                    left_out += 1;
                    return None;
                }
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let packets = left_out + 1;
                (left_out, skip) = (0, random >> 26);
                Some(Sample { packets, ..sample })
            });
            check(sampled, &[]);
        }
    }
}

#[test]
fn clients_behind_one_address_are_none() {
    let behind = |packet| match packet % 10 {
        0 => (CLIENT, Content::Request),
        1 => (CLIENT, Content::Other),
        _ => (CLIENT, Content::Acknowledging),
    };
    check(traffic(50_000, behind), &[]);
}

#[test]
fn a_large_download_is_none() {
    check(traffic(800_000, |_| (CLIENT, Content::Acknowledging)), &[]);
}

#[test]
fn a_source_far_over_the_others_is_a_heavy_hitter() {
    let hitter = |packet| match packet % 10 {
        0 => (packet, Content::Other),
        _ => (CLIENT, Content::Other),
    };
    let attacks = named(traffic(30_000, hitter));
    assert_eq!(attacks.len(), 1);
    assert_eq!(attacks[0].kind, Kind::HeavyHitter);
    assert_eq!(attacks[0].subject.to_string(), "from 203.0.113.9");
    // Every source sends as much: none is over the rest.
    check(
        traffic(150_000, |packet| (packet % 5 * 65_536, Content::Other)),
        &[],
    );
}

#[test]
fn a_subnet_whose_members_stay_under_the_limit_is_spread() {
    let spread = |packet| match packet % 10 {
        0 => (packet * 7919, Content::Other),
        _ => (CLIENT + packet % 101, Content::Other),
    };
    let attacks = named(traffic(30_000, spread));
    assert_eq!(attacks.len(), 1);
    assert_eq!(attacks[0].kind, Kind::Spread);
    assert_eq!(attacks[0].subject.to_string(), "from 203.0.113.0/24");
    assert!(attacks[0].sources > 70, "{}", attacks[0].sources);
}

#[test]
fn an_attack_is_reported_when_it_begins_and_when_it_ends() {
    let mut detector = detector();
    let mut began = 0;
    for second in 0..3 {
        for mut sample in traffic(600, |packet| (packet * 7919, Content::Request)) {
            sample.at = Instant::from_nanos(sample.at.as_nanos() + second * SECOND_NS);
            began += detector.take(&sample).began.len();
        }
    }
    began += detector.advance(after(3)).began.len();
    assert_eq!((began, detector.attacks().count()), (1, 1));
    assert!(detector.advance(after(12)).ended.is_empty());
    assert_eq!(detector.advance(after(13)).ended.len(), 1);
    assert_eq!(detector.attacks().count(), 0);
}

#[test]
fn a_sample_counts_for_the_packets_that_it_stands_for() {
    let samples = traffic(20, |packet| (packet * 7919, Content::Request));
    let samples = samples.map(|sample| Sample {
        packets: 32,
        ..sample
    });
    check(samples, &[Kind::SynFlood]);
}

#[test]
fn a_sample_that_stands_for_lost_ones_begins_no_attack() {
    let one = traffic(1, |_| (CLIENT, Content::Icmp)).map(|sample| Sample {
        packets: 30_000,
        ..sample
    });
    check(one, &[]);
    // Nor does one that stands for others, where the threshold is low.
    let mut rule = Rule::of(Kind::IcmpFlood);
    rule.above = std::num::NonZeroU32::new(20).unwrap();
    for (samples, count) in [(7, 0), (8, 1)] {
        let mut detector = Detector::new([(Kind::IcmpFlood, rule.clone())].into());
        for sample in traffic(samples, |_| (CLIENT, Content::Icmp)) {
            let packets = 32;
            detector.take(&Sample { packets, ..sample });
        }
        assert_eq!(detector.advance(after(1)).began.len(), count);
    }
}

#[test]
fn attacks_and_services_outlive_a_change_of_the_rules() {
    let mut detector = detector();
    let open = Content::Datagram(Datagram {
        source_port: 40_000,
        destination_port: 5_000,
        is_first: false,
        has_socket: true,
    });
    let closed = |packet: u32| {
        Content::Datagram(Datagram {
            source_port: 40_000 + u16::try_from(packet % 5).unwrap(),
            destination_port: 5_000,
            is_first: false,
            has_socket: false,
        })
    };
    detector.set_host(Host::new([TARGET], None));
    for sample in traffic(2_401, |packet| match packet {
        0 => (CLIENT, open),
        _ if packet % 2 == 0 => (packet * 7919, Content::Request),
        _ => (CLIENT, Content::Icmp),
    }) {
        detector.take(&sample);
    }
    assert_eq!(detector.advance(after(1)).began.len(), 2);
    let rules = |kinds: &[Kind]| kinds.iter().map(|it| (*it, Rule::of(*it))).collect();
    let step = detector.set_rules(rules(&[Kind::SynFlood, Kind::UdpFlood]));
    let ended: Vec<Kind> = step.ended.iter().map(|attack| attack.kind).collect();
    assert_eq!(ended, [Kind::IcmpFlood]);
    // The service is away for a moment.
    for mut sample in traffic(4_000, |packet| match packet % 2 {
        0 => (packet * 7919, Content::Request),
        _ => (packet, closed(packet)),
    }) {
        sample.at = Instant::from_nanos(sample.at.as_nanos() + SECOND_NS);
        detector.take(&sample);
    }
    let step = detector.advance(after(2));
    assert!(step.began.is_empty(), "{:?}", step.began);
    assert_eq!(detector.attacks().count(), 1);
}

#[test]
fn what_no_rule_names_is_not_looked_for() {
    let mut detector = Detector::new(Rules::new());
    for sample in traffic(600, |packet| (packet * 7919, Content::Request)) {
        detector.take(&sample);
    }
    assert!(detector.advance(after(1)).began.is_empty());
}

#[track_caller]
fn check(samples: impl Iterator<Item = Sample>, expected: &[Kind]) {
    let kinds: Vec<Kind> = named(samples).iter().map(|attack| attack.kind).collect();
    assert_eq!(kinds, expected);
}

fn named(samples: impl Iterator<Item = Sample>) -> Vec<Attack> {
    let mut detector = detector();
    for sample in samples {
        assert!(detector.take(&sample).began.is_empty());
    }
    detector.advance(after(1)).began
}

/// This number of packets, spread evenly over a second, each from its own source.
fn traffic(packets: u32, what: impl Fn(u32) -> (u32, Content)) -> impl Iterator<Item = Sample> {
    (0..packets).map(move |packet| {
        let (source, content) = what(packet);
        let at = START_NS + u64::from(packet) * SECOND_NS / u64::from(packets);
        Sample {
            at: Instant::from_nanos(at),
            packets: 1,
            source: Ipv4Addr::from(source).into(),
            target: TARGET,
            bytes: 60,
            ports: None,
            content,
        }
    })
}

fn detector() -> Detector {
    Detector::new(Kind::ALL.iter().map(|it| (*it, Rule::of(*it))).collect())
}

fn after(seconds: u64) -> Instant {
    Instant::from_nanos(START_NS + seconds * SECOND_NS)
}

fn prefix(text: &str) -> crate::prefix::Prefix {
    text.parse().unwrap()
}
