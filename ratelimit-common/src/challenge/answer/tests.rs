use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::challenge::{
    Key, Message,
    options::{self, ListenerOptions, SynOptions},
};
use crate::parse::ipv6::walk;

const NOW: Instant = Instant::from_nanos(77 << 36);

proptest! {
    /// The answer is no longer than the question, returns to its origin, and contains the cookie;
    /// all checksums are right.
    #[test]
    fn a_question_is_answered(
        key: [u64; 2], is_ipv6: bool, tags in 0_usize..=2, ip_options in 0_usize..=10,
        tcp_options in 0_usize..=10,
        ends: [[u8; 16]; 2], ports: [[u8; 2]; 2], sequence: [u8; 4], payload in 0_usize..64,
        has_link_layer: bool,
    ) {
        // Groups do not accept connections.
        prop_assume!(!(0xe0..0xf0).contains(&ends[1][0]) && ends[1][0] != 0xff);
        let link_layer = if has_link_layer { LinkLayer::Ethernet } else { LinkLayer::None };
        let front = if has_link_layer { front(tags, is_ipv6) } else { Vec::new() };
        let mut segment = [
            &ports.concat()[..],
            &sequence,
            &[0; 4],
            &[(5 + u8::try_from(tcp_options).unwrap()) << 4, SYN],
            &[0xff; 6],
        ]
        .concat();
        segment.extend(std::iter::repeat_n(1, 4 * tcp_options + payload));
        let packet = if is_ipv6 {
            ipv6_packet(ends, ip_options > 0, &segment)
        } else {
            ipv4_packet(ends, ip_options, &segment)
        };
        let question = [&front[..], &packet].concat();
        let mut answer = question.clone();
        let bytes = usize::from(answered(&mut answer, link_layer, Key(key)).unwrap());
        prop_assert!(bytes <= question.len());
        prop_assert_eq!(&answer[bytes..], &question[bytes..]);

        let (header, packet) = answer[..bytes].split_at(front.len());
        if has_link_layer {
            prop_assert_eq!(&header[..6], &question[6..12]);
            prop_assert_eq!(&header[6..12], &question[..6]);
            prop_assert_eq!(&header[12..], &question[12..front.len()]);
        }
        let width = if is_ipv6 { 16 } else { 4 };
        let ends = ends.map(|end| end[..width].to_vec());
        let (ip, tcp) = packet.split_at(packet.len() - 20);
        let (addresses, kind) = if is_ipv6 { (&ip[8..], ip[6]) } else { (&ip[12..], ip[9]) };
        prop_assert_eq!(addresses, [&ends[1][..], &ends[0]].concat());
        prop_assert_eq!((kind, ip[0] >> 4), (TCP, if is_ipv6 { 6 } else { 4 }));
        if is_ipv6 {
            prop_assert_eq!(&ip[4..6], [0, 20]);
        } else {
            prop_assert_eq!((ip[0], &ip[2..4]), (0x45, &[0, 40][..]));
            prop_assert_eq!(ones_complement_sum(ip), 0xffff);
        }
        let pseudo = [addresses, &[0, TCP, 0, 20]].concat();
        prop_assert_eq!(ones_complement_sum(&[&pseudo, tcp].concat()), 0xffff);
        prop_assert_eq!(&tcp[..4], [ports[1], ports[0]].concat());
        prop_assert_eq!((tcp[12], tcp[13]), (5 << 4, SYN | ACK));
        let returned = u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]);
        let end = |end: &[u8]| <[u8; 4]>::try_from(end);
        let cookie = if is_ipv6 {
            let addresses = [0, 16].map(|at| {
                Ipv6::new(
                    <[u8; 16]>::try_from(&question_ends(&question, front.len(), 8)[at..at + 16])
                        .unwrap(),
                )
            });
            cookie::hash(Key(key), &cookie::message(&Connection { addresses, ports }, NOW))
        } else {
            let addresses = [Ipv4::new(end(&ends[0]).unwrap()), Ipv4::new(end(&ends[1]).unwrap())];
            cookie::hash(Key(key), &cookie::message(&Connection { addresses, ports }, NOW))
        };
        prop_assert_eq!(returned, cookie);
    }

    /// An answer with a listener's cookie is right, no longer than the question, and has the
    /// segment size if the question had options.
    #[test]
    fn a_listener_answers(
        is_ipv6: bool, options in 0_usize..=10, sequence: u32, number: u32, segment_bytes: u16,
    ) {
        let mut segment = [
            &[1, 2, 3, 4][..],
            &number.to_be_bytes(),
            &[0; 4],
            &[(5 + u8::try_from(options).unwrap()) << 4, SYN],
            &[0; 6],
        ]
        .concat();
        segment.extend(std::iter::repeat_n(1, 4 * options));
        let packet = if is_ipv6 {
            ipv6_packet([[1; 16], [2; 16]], false, &segment)
        } else {
            ipv4_packet([[1; 16], [2; 16]], 0, &segment)
        };
        let mut frame = packet.clone();
        let range = frame.as_mut_ptr_range();
        // SAFETY: the range is that of a live vector, of which the cursor has a copy.
        let front = unsafe { Front::from_raw(range.start, range.end) };
        let cookies = Keeping(ListenerCookie { sequence, segment_bytes }, None, &packet, &front);
        let bytes = write(
            Cursor::new(&packet),
            &front,
            LinkLayer::None,
            walk,
            &cookies,
            NOW,
        )
        .unwrap();
        prop_assert!(usize::from(bytes) <= packet.len());
        let (ip, tcp) = frame[..bytes.into()].split_at(if is_ipv6 { 40 } else { 20 });
        let tcp_bytes = u8::try_from(tcp.len()).unwrap();
        prop_assert_eq!(tcp_bytes, if options == 0 { 20 } else { 24 });
        if is_ipv6 {
            prop_assert_eq!(&ip[4..6], [0, tcp_bytes]);
        } else {
            prop_assert_eq!(&ip[2..4], [0, 20 + tcp_bytes]);
            prop_assert_eq!(ones_complement_sum(ip), 0xffff);
        }
        let pseudo = [&ip[if is_ipv6 { 8 } else { 12 }..], &[0, TCP, 0, tcp_bytes]].concat();
        prop_assert_eq!(ones_complement_sum(&[&pseudo, tcp].concat()), 0xffff);
        prop_assert_eq!(&tcp[4..8], sequence.to_be_bytes());
        prop_assert_eq!(&tcp[8..12], number.wrapping_add(1).to_be_bytes());
        prop_assert_eq!((tcp[12], tcp[13]), (tcp_bytes << 2, SYN | ACK));
        if options > 0 {
            let [high, low] = segment_bytes.min(if is_ipv6 { 1440 } else { 1460 }).to_be_bytes();
            prop_assert_eq!(&tcp[20..], [2, 4, high, low]);
        }
    }

    /// A listener that keeps options is represented by those that the SYN has too, in the order of
    /// Linux, if the SYN has as many bytes of them.
    #[test]
    fn a_listener_keeps_options(
        is_ipv6: bool, has: [bool; 4], listener_has: [bool; 2], client_scale in 0_u8..=15,
        scale in 0_u8..=14, value: u32,
    ) {
        let [has_size, has_sack, has_timestamps, has_scale] = has;
        let mut options = Vec::new();
        if has_size { options.extend([2, 4, 5, 0xb4]); }
        options.extend(if has_sack { [4, 2] } else { [1, 1] });
        if has_timestamps {
            options.extend([&[8, 10][..], &value.to_be_bytes(), &[0; 4]].concat());
        } else {
            options.extend([1, 1]);
        }
        if has_scale { options.extend([1, 3, 3, client_scale]); }
        let words = u8::try_from(5 + options.len() / 4).unwrap();
        let segment = [&[1, 2, 3, 4][..], &[0; 8], &[words << 4, SYN], &[0; 6], &options].concat();
        let packet = if is_ipv6 {
            ipv6_packet([[1; 16], [2; 16]], false, &segment)
        } else {
            ipv4_packet([[1; 16], [2; 16]], 0, &segment)
        };
        let mut frame = packet.clone();
        let range = frame.as_mut_ptr_range();
        // SAFETY: the range is that of a live vector, of which the cursor has a copy.
        let front = unsafe { Front::from_raw(range.start, range.end) };
        let [scales, takes_sack] = listener_has;
        let listener = ListenerOptions { window_scale: scales.then_some(scale), sack: takes_sack };
        let cookie = ListenerCookie { sequence: 1, segment_bytes: 1400 };
        let cookies = Keeping(cookie, Some(listener), &packet, &front);
        let bytes = write(
            Cursor::new(&packet),
            &front,
            LinkLayer::None,
            walk,
            &cookies,
            NOW,
        )
        .unwrap();
        let (ip, tcp) = frame[..bytes.into()].split_at(if is_ipv6 { 40 } else { 20 });
        let pseudo = [
            &ip[if is_ipv6 { 8 } else { 12 }..],
            &[0, TCP, 0, u8::try_from(tcp.len()).unwrap()],
        ]
        .concat();
        prop_assert_eq!(ones_complement_sum(&[&pseudo, tcp].concat()), 0xffff);

        let mut expected = std::vec![2, 4, 5, 0x78];
        let (keeps_scale, keeps_sack) = (has_scale && scales, has_sack && takes_sack);
        let all = if keeps_scale { 20 } else { 16 };
        if has_timestamps && options.len() >= all {
            let kept = if keeps_scale {
                client_scale.min(14)
            } else {
                15
            } | u8::from(keeps_sack) << 4;
            let ticks = NOW.as_nanos() / 1_000_000;
            let shown = (0..=ticks).rev().find(|ticks| ticks % 64 == u64::from(kept)).unwrap();
            expected.extend(if keeps_sack { [4, 2] } else { [1, 1] });
            expected.extend(
                [
                    &[8, 10][..],
                    &u32::try_from(shown & 0xffff_ffff).unwrap().to_be_bytes(),
                    &value.to_be_bytes(),
                ]
                .concat(),
            );
            if keeps_scale { expected.extend([1, 3, 3, scale]); }
        }
        prop_assert_eq!(&tcp[20..], &expected);
        prop_assert_eq!(usize::from(tcp[12] >> 2), tcp.len());
    }

    /// For any bytes, options are read as far as they are complete.
    #[test]
    fn options_are_read(
        bytes in prop::collection::vec(prop_oneof![0_u8..=10, any::<u8>()], 0..=40)
    ) {
        let (start, count) = (Cursor::new(&bytes), u16::try_from(bytes.len()).unwrap());
        let read = SynOptions::read(start, |kind| options::find(start, count, kind));
        prop_assert_eq!(read, read_again(&bytes));
    }

    /// For any bytes: a packet that cannot be answered stays as it was, and nothing behind the
    /// frame changes.
    #[test]
    fn what_is_cut_is_unchanged(
        is_ipv6: bool, cut in 0_usize..74, noise in prop::collection::vec(any::<u8>(), 0..74),
    ) {
        let segment = [&[1, 2, 3, 4][..], &[0; 8], &[5 << 4, SYN], &[0; 6]].concat();
        let packet = if is_ipv6 {
            ipv6_packet([[1; 16], [2; 16]], false, &segment)
        } else {
            ipv4_packet([[1; 16], [2; 16]], 0, &segment)
        };
        let whole = [front(0, is_ipv6), packet].concat();
        for mut frame in [whole[..cut.min(whole.len() - 1)].to_vec(), noise] {
            let before = frame.clone();
            if answered(&mut frame, LinkLayer::Ethernet, Key([1, 2])).is_none() {
                prop_assert_eq!(frame, before);
            } else {
                prop_assert_ne!(before.len(), cut.min(whole.len() - 1));
            }
        }
    }
}

/// Like [`SynOptions::read`], for slices.
fn read_again(bytes: &[u8]) -> SynOptions {
    let (mut read, mut rest) = (
        SynOptions {
            has_timestamp: false,
            timestamp: 0,
            scale: 15,
            sack: false,
        },
        bytes,
    );
    for _ in 0..20 {
        let (option, behind) = match rest {
            [1, behind @ ..] => (&[][..], behind),
            [2..=255, length @ 2..=255, ..] if usize::from(*length) <= rest.len() => {
                rest.split_at((*length).into())
            }
            _ => break,
        };
        match option {
            [4, 2] => read.sack = true,
            [3, 3, scale] => read.scale = (*scale).min(14),
            [8, 10, a, b, c, d, ..] => {
                (read.has_timestamp, read.timestamp) = (true, u32::from_be_bytes([*a, *b, *c, *d]));
            }
            _ => {}
        }
        rest = behind;
    }
    read
}

fn answered(frame: &mut [u8], link_layer: LinkLayer, key: Key) -> Option<u16> {
    let range = frame.as_mut_ptr_range();
    // SAFETY: the range is that of a live vector, of which the cursor has a copy.
    let front = unsafe { Front::from_raw(range.start, range.end) };
    let copy = frame.to_vec();
    write(
        Cursor::new(&copy),
        &front,
        link_layer,
        walk,
        &Keyed(key),
        NOW,
    )
}

/// The cookies of a key, without a listener.
struct Keyed(Key);

impl<A: Address> ChallengeState<A> for Keyed {
    fn cookie(&self, message: &Message) -> u32 {
        cookie::hash(self.0, message)
    }
}

/// The cookie of a listener that keeps options, for the SYN in these bytes, which are answered in
/// place.
struct Keeping<'a>(
    ListenerCookie,
    Option<ListenerOptions>,
    &'a [u8],
    &'a Front<'a>,
);

impl<A: Address> ChallengeState<A> for Keeping<'_> {
    fn listener_cookie(&self, _: &Segment<A>) -> Option<ListenerCookie> {
        Some(self.0)
    }

    fn write_options(&self, request: Request, now: Instant) -> Option<Written> {
        let frame = Cursor::new(self.2);
        let mut start = frame;
        start.skip(request.from);
        let find = |kind| options::find(start, request.bytes, kind);
        options::write(frame, self.3, request, self.1, find, now)
    }
}

fn question_ends(question: &[u8], packet: usize, at: usize) -> &[u8] {
    &question[packet + at..packet + at + 32]
}

/// An Ethernet header with VLAN tags.
fn front(tags: usize, is_ipv6: bool) -> Vec<u8> {
    let mut front = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in 0..tags {
        front.extend([0x81, 0, 0, 7 + u8::try_from(tag).unwrap()]);
    }
    front.extend(if is_ipv6 { [0x86, 0xdd] } else { [8, 0] });
    front
}

fn ipv4_packet(ends: [[u8; 16]; 2], options: usize, segment: &[u8]) -> Vec<u8> {
    let bytes = u16::try_from(20 + 4 * options + segment.len()).unwrap();
    let [high, low] = bytes.to_be_bytes();
    let words = 0x45 + u8::try_from(options).unwrap();
    let mut packet = std::vec![words, 9, high, low, 1, 2, 0, 0, 3, TCP, 5, 6];
    packet.extend([&ends[0][..4], &ends[1][..4]].concat());
    packet.extend(std::iter::repeat_n(1, 4 * options));
    packet.extend(segment);
    packet
}

fn ipv6_packet(ends: [[u8; 16]; 2], has_extension: bool, segment: &[u8]) -> Vec<u8> {
    const DESTINATION: u8 = 60;
    let extension: &[u8] = if has_extension {
        &[TCP, 0, 1, 4, 0, 0, 0, 0]
    } else {
        &[]
    };
    let bytes = u16::try_from(extension.len() + segment.len()).unwrap();
    let [high, low] = bytes.to_be_bytes();
    let next = if has_extension { DESTINATION } else { TCP };
    let header = [0x60, 1, 2, 3, high, low, next, 9];
    [&header[..], &ends.concat(), extension, segment].concat()
}

/// As in RFC 1071: pairs of bytes, and each carry added at once.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    bytes.chunks(2).fold(0, |sum: u16, pair| {
        let (sum, carry) = sum.overflowing_add(u16::from_be_bytes([pair[0], pair[1]]));
        sum + u16::from(carry)
    })
}
