//! The sources that are to blame for an attack, and those that are not.

use super::*;

const OTHER_TARGET: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 10, 10, 20));
/// Far below a tenth of any threshold.
const INNOCENT: u32 = 0xc633_6407;

/// Samples of one in 32 packets on average, as the kernel chooses them, with the packets that each
/// represents.
fn sampled(samples: impl Iterator<Item = Sample>, seed: u32) -> impl Iterator<Item = Sample> {
    let (mut random, mut left_out, mut skip) = (seed | 1, 0, 0);
    samples.filter_map(move |sample| {
        if left_out < skip {
            left_out += 1;
            return None;
        }
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let packets = left_out + 1;
        (left_out, skip) = (0, random >> 26);
        Some(Sample { packets, ..sample })
    })
}

fn blamed(samples: impl Iterator<Item = Sample>) -> Vec<(Kind, crate::prefix::Prefix)> {
    let mut detector = detector();
    for sample in samples {
        detector.take(&sample);
    }
    detector.advance(after(1)).to_blame
}

fn to(target: IpAddr, samples: impl Iterator<Item = Sample>) -> impl Iterator<Item = Sample> {
    samples.map(move |sample| Sample { target, ..sample })
}

/// The samples of several streams, by time.
fn together(streams: &[Vec<Sample>]) -> Vec<Sample> {
    let mut all = streams.concat();
    all.sort_by_key(|sample| sample.at);
    all
}

#[test]
fn clients_that_connect_in_a_flood_are_not_to_blame_and_its_sources_are() {
    const CLIENTS: u32 = 2_000;
    for seed in 0..5 {
        let flood = traffic(120_000, |packet| {
            (CLIENT + packet % 20 * 7919, Content::Request)
        });
        let clients = traffic(6 * CLIENTS, |packet| {
            (INNOCENT + packet % CLIENTS, Content::Request)
        });
        let all = together(&[flood.collect(), clients.collect()]);
        let blamed = blamed(sampled(all.into_iter(), seed));
        assert_eq!(blamed.len(), 20, "{blamed:?}");
        for number in 0..20 {
            let source = IpAddr::from(Ipv4Addr::from(CLIENT + number * 7919));
            assert!(blamed.contains(&(Kind::SynFlood, prefix(&source.to_string()))));
        }
    }
}

#[test]
fn no_source_of_a_flood_of_slow_ones_is_to_blame() {
    for seed in 0..5 {
        let mut random: u32 = seed;
        let sources: Vec<u32> = std::iter::repeat_with(|| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            random >> 15
        })
        .take(118_000)
        .collect();
        let flood = traffic(118_000, |packet| {
            (sources[packet as usize], Content::Request)
        });
        assert_eq!(blamed(sampled(flood, seed)), []);
    }
}

#[test]
fn samples_that_stand_for_lost_ones_name_no_source() {
    let flood = traffic(570_000, |packet| {
        (packet.wrapping_mul(7919), Content::Other)
    });
    let pings = traffic(400, |_| (INNOCENT, Content::Icmp));
    let all = together(&[flood.collect(), to(OTHER_TARGET, pings).collect()]);
    let innocent = IpAddr::from(Ipv4Addr::from(INNOCENT));
    let mut detector = detector();
    let (mut before, mut pings) = (false, 0);
    for sample in sampled(all.into_iter(), 1) {
        let is_ping = sample.source == innocent;
        // The first one of those that send little, and one of those that send a few.
        let follows_lost = !before || is_ping && pings == 5;
        let packets = if follows_lost {
            1_081_248
        } else {
            sample.packets
        };
        (before, pings) = (true, pings + u32::from(is_ping));
        detector.take(&Sample { packets, ..sample });
    }
    assert!(pings >= 8, "{pings}");
    let step = detector.advance(after(1));
    assert!(step.began.is_empty(), "{:?}", step.began);
    assert_eq!(step.to_blame, []);
}

#[test]
fn a_heavy_hitter_is_named_from_samples() {
    let hitter = |packet: u32| match packet % 2 {
        0 => (packet.wrapping_mul(7919), Content::Other),
        _ => (CLIENT, Content::Other),
    };
    let blamed = blamed(sampled(traffic(100_000, hitter), 1));
    assert_eq!(blamed, [(Kind::HeavyHitter, prefix("203.0.113.9"))]);
}

#[test]
fn a_client_of_another_target_is_not_to_blame() {
    let flood = traffic(2_000, |packet| (packet * 7919, Content::Request));
    let client = traffic(70, |_| (INNOCENT, Content::Request));
    let all = together(&[flood.collect(), to(OTHER_TARGET, client).collect()]);
    assert_eq!(blamed(all.into_iter()), []);
}

#[test]
fn a_client_of_another_port_is_not_to_blame_for_a_reflection() {
    let datagram = |source_port, destination_port| {
        Content::Datagram(Datagram {
            source_port,
            destination_port,
            is_first: false,
            has_socket: true,
        })
    };
    let client = traffic(300, |_| (INNOCENT, datagram(40_000, 5_000)));
    let answers = traffic(1_500, |packet| {
        let to = Content::Datagram(Datagram {
            source_port: 123,
            destination_port: 20_000,
            is_first: false,
            has_socket: false,
        });
        // One of the servers sends a large part.
        (packet % 200 / 150 * (packet % 200) * 7919, to)
    });
    let answers = answers.map(|sample| Sample {
        bytes: 482,
        ..sample
    });
    let all = together(&[client.collect(), answers.collect()]);
    let mut detector = detector();
    detector.set_host(Host::new([TARGET], None));
    for sample in all {
        detector.take(&sample);
    }
    let step = detector.advance(after(1));
    let servers = step.to_blame.iter().filter(|it| it.0 == Kind::Reflection);
    let servers: Vec<_> = servers.collect();
    assert_eq!(servers, [&(Kind::Reflection, prefix("0.0.0.0"))]);
}

/// Of the target itself, too: clients behind one address, while others flood it.
#[test]
fn a_client_that_continues_its_connections_is_not_to_blame() {
    for rate in [70, 600] {
        let flood = traffic(40_000, |packet| (packet * 7919, Content::Request));
        let clients = traffic(rate * 3, |packet| match packet % 3 {
            0 => (INNOCENT, Content::Request),
            _ => (INNOCENT, Content::Connected { port: 443 }),
        });
        let idle = traffic(rate, |_| (CLIENT, Content::Request));
        let all = together(&[flood.collect(), clients.collect(), idle.collect()]);
        let exact = blamed(all.iter().copied());
        assert_eq!(exact, [(Kind::SynFlood, prefix("203.0.113.9"))], "{rate}");
        for seed in 0..20 {
            let blamed = blamed(sampled(all.iter().copied(), seed));
            let innocent = (Kind::SynFlood, prefix("198.51.100.7"));
            assert!(!blamed.contains(&innocent), "{rate}, {seed}: {blamed:?}");
        }
    }
}
