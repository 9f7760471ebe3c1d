//! UDP: unsolicited answers, floods of ports, and conversations.

use super::*;

/// An answer from a port to a port that may have asked, with its length, with or without a socket.
fn datagram(from: u16, to: u16, has_socket: bool) -> Content {
    Content::Datagram(Datagram {
        source_port: from,
        destination_port: to,
        is_first: false,
        has_socket,
    })
}

fn high(packet: u32) -> u16 {
    40_000 + u16::try_from(packet * 7919 % 20_000).unwrap()
}

fn sized(bytes: u32, samples: impl Iterator<Item = Sample>) -> impl Iterator<Item = Sample> {
    samples.map(move |sample| Sample { bytes, ..sample })
}

/// Answers of this number of servers from a port.
fn answers(servers: u32, from: u16) -> impl Fn(u32) -> (u32, Content) {
    move |packet| (packet % servers * 7919, datagram(from, high(packet), false))
}

#[test]
fn answers_of_many_servers_are_a_reflection_whatever_port_they_come_from() {
    for port in [123, 161, 3_389, 10_074, 27_015, 37_810, 47_808] {
        let attacks = named(traffic(2_000, answers(500, port)));
        assert_eq!(attacks.len(), 1, "{attacks:?}");
        assert_eq!(attacks[0].kind, Kind::Reflection);
        let subject = format!("from port {port} to 10.10.10.10");
        assert_eq!(attacks[0].subject.to_string(), subject);
    }
}

#[test]
fn a_reflection_that_starts_slowly_is_named_by_its_share() {
    check(
        sized(700, traffic(100, answers(90, 37_810))),
        &[Kind::Reflection],
    );
    check(sized(700, traffic(40, answers(40, 37_810))), &[]);
    let beside_others = |packet: u32| match packet % 10 {
        0 => answers(90, 37_810)(packet),
        _ => (CLIENT, Content::Acknowledging),
    };
    check(sized(700, traffic(900, beside_others)), &[]);
}

#[test]
fn a_poller_of_30_devices_is_none_whatever_is_known_of_it() {
    for bytes in [100, 1_400] {
        for rate in [300, 1_200, 5_000] {
            // One without a known question or socket, one with a socket, and one whose questions
            // are seen.
            check(sized(bytes, traffic(rate, answers(30, 161))), &[]);
            let of_socket = |packet: u32| (packet % 30, datagram(161, 50_161, true));
            check(sized(bytes, traffic(rate, of_socket)), &[]);
        }
    }
}

#[test]
fn a_resolver_is_none_and_amplified_answers_of_name_servers_are_an_attack() {
    check(sized(300, traffic(8_000, answers(700, 53))), &[]);
    let with_sockets = |packet: u32| (packet % 700, datagram(53, high(packet), true));
    check(sized(1_200, traffic(8_000, with_sockets)), &[]);
    let of_low_ports = |packet: u32| {
        let port = 1_024 + high(packet) % 16_384;
        (packet % 700, datagram(53, port, true))
    };
    check(sized(1_200, traffic(8_000, of_low_ports)), &[]);
    check(
        sized(1_400, traffic(2_000, answers(700, 53))),
        &[Kind::Reflection],
    );
}

#[test]
fn answers_at_a_service_are_a_reflection_where_they_are_large() {
    let at_a_game = |packet: u32| (packet % 300 * 7919, datagram(389, 25_565, true));
    check(sized(1_400, traffic(2_000, at_a_game)), &[Kind::Reflection]);
    // Clients of some games all have one port.
    let clients = |packet: u32| (packet % 300 * 7919, datagram(27_005, 27_015, true));
    check(sized(120, traffic(8_000, clients)), &[]);
}

#[test]
fn answers_to_questions_that_came_by_are_none() {
    let mut detector = detector();
    for second in 0..3 {
        let answers = sized(1_400, traffic(4_000, answers(500, 161)));
        for (packet, mut answer) in (0_u32..).zip(answers) {
            answer.at = Instant::from_nanos(answer.at.as_nanos() + second * SECOND_NS);
            if packet % 8 == 0 {
                let Content::Datagram(datagram) = &mut answer.content else {
                    panic!();
                };
                std::mem::swap(&mut datagram.source_port, &mut datagram.destination_port);
                std::mem::swap(&mut answer.source, &mut answer.target);
            }
            assert!(detector.take(&answer).began.is_empty());
        }
    }
    assert!(detector.advance(after(3)).began.is_empty());
}

#[test]
fn a_download_over_quic_is_none_where_a_socket_or_a_question_is_known() {
    check(
        traffic(60_000, |_| (CLIENT, datagram(443, 50_000, true))),
        &[],
    );
    let mut detector = detector();
    for (packet, mut sample) in (0_u32..).zip(traffic(60_000, |packet| match packet % 20 {
        0 => (CLIENT, datagram(50_000, 443, false)),
        _ => (CLIENT, datagram(443, 50_000, false)),
    })) {
        if packet % 20 == 0 {
            std::mem::swap(&mut sample.source, &mut sample.target);
        }
        detector.take(&sample);
    }
    assert!(detector.advance(after(1)).began.is_empty());
}

#[test]
fn datagrams_to_random_ports_are_a_flood_of_one_source_or_of_forged_ones() {
    let random = |packet: u32| u16::try_from(packet * 31_337 % 65_521).unwrap();
    let of_one = |packet: u32| (CLIENT, datagram(5_000, random(packet), false));
    check(traffic(1_500, of_one), &[Kind::UdpFlood]);
    let forged = |packet: u32| {
        let from = random(packet * 3 + 1);
        (packet * 7919, datagram(from, random(packet), false))
    };
    for rate in [150, 1_500, 40_000] {
        check(traffic(rate, forged), &[Kind::UdpFlood]);
    }
    let to_a_port = |packet: u32| (packet * 7919, datagram(high(packet), 8_080, false));
    check(traffic(1_500, to_a_port), &[Kind::UdpFlood]);
    check(traffic(900, of_one), &[]);
}

#[test]
fn conversations_over_udp_are_no_flood() {
    // 500 calls with 50 packets a second each, forwarded: of each direction, one is seen.
    let calls = |packet: u32| {
        let port = 10_000 + u16::try_from(packet % 500).unwrap();
        (packet % 500 * 7919, datagram(port + 7, port, false))
    };
    check(traffic(25_000, calls), &[]);
    // Clients with a datagram or two each, of a service with a socket.
    let clients = |packet: u32| (packet * 7919, datagram(high(packet), 443, true));
    check(traffic(5_000, clients), &[]);
    let time = |packet: u32| (packet * 7919, datagram(high(packet), 123, false));
    check(traffic(5_000, time), &[]);
}
