//! Segments without connections, ICMP and fragments.

use ratelimit_common::{Cursor, parse::LinkLayer};

use super::*;

const ACCEPTANCE: Content = Content::Acceptance { is_asked: false };
const RESET: Content = Content::Reset {
    of_connection: false,
};

#[test]
fn acceptances_that_nobody_asked_for_are_a_reflection() {
    let of_servers = |packet: u32| (packet % 300 * 7919, ACCEPTANCE);
    for rate in [100, 600, 30_000] {
        check(traffic(rate, of_servers), &[Kind::SynAckReflection]);
    }
    check(traffic(600, |packet| (packet % 8, ACCEPTANCE)), &[]);
}

#[test]
fn acceptances_of_connections_that_are_used_are_none() {
    let of_socket = |packet| (packet * 7919, Content::Acceptance { is_asked: true });
    check(traffic(2_000, of_socket), &[]);
    // Forwarded.
    let used = |packet| match packet % 4 {
        0 => (packet, ACCEPTANCE),
        _ => (packet - packet % 4, Content::Stray { port: 50_000 }),
    };
    check(traffic(8_000, used), &[]);
    let mut detector = detector();
    for (packet, mut sample) in (0_u32..).zip(traffic(2_000, |packet| match packet % 2 {
        0 => (packet * 7919, Content::Request),
        _ => ((packet - 1) * 7919, ACCEPTANCE),
    })) {
        if packet % 2 == 0 {
            std::mem::swap(&mut sample.source, &mut sample.target);
        }
        detector.take(&sample);
    }
    assert!(detector.advance(after(1)).began.is_empty());
}

#[test]
fn resets_of_no_connection_are_a_flood() {
    let forged = |packet| (packet * 7919, RESET);
    for rate in [100, 600, 30_000] {
        check(traffic(rate, forged), &[Kind::RstFlood]);
    }
    check(
        traffic(600, |_| {
            (
                CLIENT,
                Content::Reset {
                    of_connection: true,
                },
            )
        }),
        &[],
    );
}

#[test]
fn clients_that_reset_their_connections_are_none() {
    let health_checks = |packet| match packet % 3 {
        0 => (packet, Content::Request),
        1 => (packet, Content::Stray { port: 80 }),
        _ => (packet, RESET),
    };
    check(traffic(3_000, health_checks), &[]);
}

#[test]
fn icmp_that_nobody_asked_for_is_a_flood() {
    for content in [Content::EchoRequest, Content::Icmp] {
        check(traffic(1_200, |_| (CLIENT, content)), &[Kind::IcmpFlood]);
        let large = |rate| {
            let forged = move |packet: u32| (packet * 7919, content);
            traffic(rate, forged).map(|sample| Sample {
                bytes: 1_400,
                ..sample
            })
        };
        check(large(100), &[Kind::IcmpFlood]);
        check(traffic(300, |packet| (packet, content)), &[]);
    }
}

/// An attacker far away may send what neighbours and groups send.
#[test]
fn messages_of_neighbours_count_as_a_flood_when_they_come_from_beyond_the_link() {
    for kind in [130, 131, 132, 133, 134, 135, 136, 137, 139, 143] {
        let sample = |source, hop_limit| icmpv6(source, hop_limit, kind).content;
        assert_eq!(sample("2001:db8:9::1", 255), Content::Other, "type {kind}");
        assert_eq!(sample("fe80::1", 1), Content::Other, "type {kind}");
        assert_eq!(sample("::", 1), Content::Other, "type {kind}");
        for hop_limit in [1, 2, 64, 254] {
            let far = sample("2001:db8:9::1", hop_limit);
            assert_eq!(far, Content::Icmp, "type {kind}, hop limit {hop_limit}");
        }
        assert_eq!(sample("fe80::1", 254), Content::Icmp, "type {kind}");
    }
    let flood = |hop_limit| {
        traffic(1_200, |_| (CLIENT, Content::Icmp)).map(move |sample| Sample {
            content: icmpv6("2001:db8:9::1", hop_limit, 136).content,
            ..sample
        })
    };
    check(flood(60), &[Kind::IcmpFlood]);
    check(flood(255), &[]);
}

fn icmpv6(source: &str, hop_limit: u8, kind: u8) -> Sample {
    let source: std::net::Ipv6Addr = source.parse().unwrap();
    let mut frame = vec![0; 86];
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    frame[14] = 0x60;
    frame[19] = 32;
    frame[20..22].copy_from_slice(&[58, hop_limit]);
    frame[22..38].copy_from_slice(&source.octets());
    frame[54] = kind;
    let frame = Cursor::with_frame_bytes(&frame, 86);
    Sample::read(Instant::from_nanos(START_NS), 1, frame, LinkLayer::Ethernet).unwrap()
}

#[test]
fn echoes_that_a_monitor_asked_for_are_none() {
    let mut detector = detector();
    for (packet, mut sample) in (0_u32..).zip(traffic(6_000, |packet| match packet % 2 {
        0 => (packet, Content::EchoRequest),
        _ => (packet - 1, Content::Icmp),
    })) {
        if packet % 2 == 0 {
            std::mem::swap(&mut sample.source, &mut sample.target);
        }
        detector.take(&sample);
    }
    assert!(detector.advance(after(1)).began.is_empty());
}

#[test]
fn later_fragments_without_a_first_one_are_a_flood() {
    let forged = |packet| (packet * 7919, Content::LaterFragment);
    for rate in [100, 1_200, 30_000] {
        check(traffic(rate, forged), &[Kind::FragmentFlood]);
    }
    // Datagrams of 32 KiB between two hosts.
    let of_files = |packet: u32| match packet % 22 {
        0 => (CLIENT, first_fragment(2_049)),
        _ => (CLIENT, Content::LaterFragment),
    };
    check(traffic(11_000, of_files), &[]);
}

#[test]
fn fragments_and_errors_that_come_with_a_reflection_are_part_of_it() {
    let amplified = |packet: u32| match packet % 30 {
        0 => (packet, Content::Icmp),
        1..10 => (packet * 7919, first_fragment(53)),
        _ => (packet * 7919, Content::LaterFragment),
    };
    for rate in [900, 6_000, 60_000] {
        let samples = traffic(rate, amplified).map(|sample| Sample {
            bytes: 1_500,
            ..sample
        });
        check(samples, &[Kind::Reflection]);
    }
}

#[test]
fn resets_that_come_with_a_flood_of_requests_are_part_of_it() {
    let flood = |packet: u32| match packet % 20 {
        0 => (packet, RESET),
        _ => (packet * 7919, Content::Request),
    };
    check(traffic(30_000, flood), &[Kind::SynFlood]);
}

fn first_fragment(source_port: u16) -> Content {
    Content::Datagram(Datagram {
        source_port,
        destination_port: 40_000,
        is_first: true,
        has_socket: false,
    })
}
