//! Acknowledgements: of connections, of none, and forwarded.

use super::*;
use ratelimit_common::{Cursor, parse::LinkLayer, sample::Socket};

const WEB: u16 = 443;
const CONNECTED: Content = Content::Connected { port: WEB };
const STRAY: Content = Content::Stray { port: WEB };
const ENDING: Content = Content::Ending { port: WEB };
const RESET: Content = Content::Reset {
    of_connection: false,
};

#[test]
fn acknowledgements_of_no_connection_are_a_flood() {
    let flood = |packet| match packet {
        0 => (CLIENT, CONNECTED),
        _ => (packet * 7919, STRAY),
    };
    let attacks = named(traffic(1_100, flood));
    assert_eq!(attacks.len(), 1, "{attacks:?}");
    assert_eq!(attacks[0].kind, Kind::AckFlood);
    assert_eq!(attacks[0].subject.to_string(), "to 10.10.10.10");
    assert_eq!(attacks[0].packets_per_second, 1_099);
    assert!(attacks[0].sources > 900, "{}", attacks[0].sources);
    check(traffic(1_000, flood), &[]);
}

#[test]
fn a_source_is_to_blame_for_what_is_of_no_connection() {
    let mut detector = detector();
    for sample in traffic(40_000, |packet| match packet % 4 {
        0 => (CLIENT, STRAY),
        // Another is busy with its download.
        _ => (CLIENT + 1, CONNECTED),
    }) {
        detector.take(&sample);
    }
    let step = detector.advance(after(1));
    let blamed = vec![(Kind::AckFlood, prefix("203.0.113.9"))];
    assert_eq!(step.to_blame, blamed);
}

#[test]
fn downloads_of_one_client_or_of_thousands_are_none() {
    check_downloads(80_000);
}

#[test]
#[ignore = "thorough"]
fn fast_downloads_of_one_client_or_of_thousands_are_none() {
    check_downloads(800_000);
}

fn check_downloads(packets: u32) {
    check(traffic(packets, |_| (CLIENT, CONNECTED)), &[]);
    check(
        traffic(packets, |packet| (packet % 5_000 * 7919, CONNECTED)),
        &[],
    );
}

#[test]
fn what_is_forwarded_is_none() {
    check(traffic(50_000, |packet| (packet % 5_000, STRAY)), &[]);
    // To a container, on a host that has connections of its own.
    let beside = |packet| match packet % 3 {
        0 => (CLIENT, Content::Connected { port: 22 }),
        _ => (packet, STRAY),
    };
    check(traffic(50_000, beside), &[]);
}

#[test]
fn clients_that_open_connections_are_none() {
    // Their handshake and their question come at once.
    let short = |packet| match packet % 5 {
        0 => (packet, Content::Request),
        1 | 2 => (packet, STRAY),
        3 => (packet, CONNECTED),
        _ => (packet, Content::Acknowledging),
    };
    check(traffic(50_000, short), &[]);
}

#[test]
fn the_service_is_still_known_in_the_next_window() {
    let mut detector = detector();
    for sample in traffic(1, |_| (CLIENT, CONNECTED)) {
        detector.take(&sample);
    }
    for mut sample in traffic(2_000, |packet| (packet * 7919, STRAY)) {
        sample.at = Instant::from_nanos(sample.at.as_nanos() + 2 * SECOND_NS);
        assert!(detector.take(&sample).began.is_empty());
    }
    assert_eq!(detector.advance(after(3)).began.len(), 1);
}

#[test]
fn flags_tell_an_acknowledgement() {
    const FIN: u8 = 1;
    const SYN: u8 = 2;
    const RST: u8 = 4;
    const PSH: u8 = 8;
    const ACK: u8 = 16;
    for (flags, content) in [
        (ACK, STRAY),
        (ACK | PSH, STRAY),
        (ACK | FIN, ENDING),
        (ACK | SYN, Content::Acceptance { is_asked: false }),
        (ACK | RST, RESET),
        (RST, RESET),
    ] {
        let sample = segment(flags);
        assert_eq!(sample.content, content, "flags {flags:#x}");
        let of_connection = [
            (STRAY, CONNECTED),
            (ENDING, Content::Acknowledging),
            (
                Content::Acceptance { is_asked: false },
                Content::Acceptance { is_asked: true },
            ),
            (
                RESET,
                Content::Reset {
                    of_connection: true,
                },
            ),
        ];
        let connected = of_connection.into_iter().find(|it| it.0 == content);
        let connected = connected.map_or(content, |it| it.1);
        let with_socket = sample.with_socket(Socket::Connected).content;
        assert_eq!(with_socket, connected, "flags {flags:#x}");
    }
}

#[test]
fn of_a_fragment_the_kernel_does_not_know_the_connection() {
    let mut frame = frame(16);
    frame[20] = 0x20;
    assert_eq!(read(&frame).content, Content::Acknowledging);
}

fn segment(flags: u8) -> Sample {
    read(&frame(flags))
}

fn read(frame: &[u8]) -> Sample {
    let frame = Cursor::with_frame_bytes(frame, 60);
    Sample::read(Instant::from_nanos(START_NS), 1, frame, LinkLayer::Ethernet).unwrap()
}

/// A segment from a port to another, with these flags.
fn frame(flags: u8) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[12] = 8;
    frame[14] = 0x45;
    frame[17] = 46;
    frame[23] = 6;
    frame[34..38].copy_from_slice(&[0xc0, 1, 1, 0xbb]);
    frame[46..48].copy_from_slice(&[0x50, flags]);
    frame
}
