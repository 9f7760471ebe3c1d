use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::challenge::answer::{Front, sum, write_query};

/// Lengths of the labels of `www.example.org`, and of a name of 255 bytes.
const USUAL: &[usize] = &[3, 7, 3];
const LONGEST: &[usize] = &[63, 63, 63, 61];

#[test]
fn a_query_with_one_question_is_answered_and_nothing_else() {
    let usual = Message::new(USUAL);
    check(&usual, Some(12 + 17 + 4));
    check(&Message::new(&[]), Some(12 + 1 + 4));
    check(&Message::new(LONGEST), Some(12 + 255 + 4));
    check(&Message::new(&[1; 127]), Some(12 + 255 + 4));
    check(&Message::new(&[63, 63, 63, 62]), None);
    check(&Message::new(&[64]), None);
    let extensions = &[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 0];
    check(
        &Message {
            records: [1, 0, 0, 1],
            behind: extensions,
            ..usual.clone()
        },
        Some(12 + 17 + 4),
    );
    // The record of a signature, a missing one, two of them, and those of a server.
    for (records, behind) in [
        ([1, 0, 0, 1], &[0, 0, 250, 0][..]),
        ([1, 0, 0, 1], &[]),
        ([1, 0, 0, 2], extensions),
        ([1, 1, 0, 0], extensions),
        ([1, 0, 1, 0], extensions),
        ([0, 0, 0, 0], &[]),
        ([2, 0, 0, 0], &[3, 0, 0, 1, 0, 1]),
    ] {
        check(
            &Message {
                records,
                behind,
                ..usual.clone()
            },
            None,
        );
    }
    // Responses, and operations other than a query.
    for flags in [1 << 7, 4 << 3, 5 << 3] {
        check(
            &Message {
                flags: [flags, 0],
                ..usual.clone()
            },
            None,
        );
    }
}

#[test]
fn a_query_that_is_cut_or_not_right_behind_the_network_header_is_not_answered() {
    let message = Message::new(USUAL).bytes();
    for is_ipv6 in [false, true] {
        let frame = frame(0, is_ipv6, &message);
        for bytes in 0..frame.len() {
            assert_eq!(bytes_of(&frame[..bytes]), None, "{bytes}");
        }
        assert!(bytes_of(&frame).is_some());
        let with = |change: &dyn Fn(&mut [u8])| {
            let mut frame = frame.clone();
            change(&mut frame);
            bytes_of(&frame)
        };
        let (protocol, udp) = if is_ipv6 { (20, 54) } else { (23, 34) };
        assert_eq!(with(&|frame| frame[protocol] = 6), None);
        // A datagram that ends before its question.
        assert_eq!(with(&|frame| frame[udp + 5] -= 1), None);
        if !is_ipv6 {
            assert_eq!(with(&|frame| frame[14] = 0x46), None);
            assert_eq!(with(&|frame| frame[20] = 0x20), None);
            assert_eq!(with(&|frame| frame[21] = 1), None);
        }
    }
}

proptest! {
    /// The answer is no longer than the query, returns to its origin, is truncated, and has the
    /// question; all checksums are right.
    #[test]
    fn the_answer_is_truncated(
        is_ipv6: bool, tags in 0_usize..=2, labels in prop::collection::vec(1_usize..12, 0..9),
        identification: [u8; 2], flags: [u8; 2],
        has_extensions: bool,
    ) {
        let flags = [flags[0] & !IS_ANSWER_AND_OPERATION, flags[1]];
        let mut message = Message { identification, flags, ..Message::new(&labels) };
        if has_extensions {
            message.records[3] = 1;
            message.behind = &[0, 0, 41, 4, 208, 0, 0, 0x80, 0, 0, 4, 1, 2, 3, 4];
        }
        let question = frame(tags, is_ipv6, &message.bytes());
        let mut answer = question.clone();
        let bytes = usize::from(answered(&mut answer).unwrap());
        prop_assert!(bytes <= question.len());
        prop_assert_eq!(&answer[bytes..], &question[bytes..]);
        let answer = &answer[..bytes];
        let front = 14 + 4 * tags;
        prop_assert_eq!([&answer[6..12], &answer[..6]], [&question[..6], &question[6..12]]);
        prop_assert_eq!(&answer[12..front], &question[12..front]);
        let (ends, header, width) = if is_ipv6 { (front + 8, 40, 16) } else { (front + 12, 20, 4) };
        prop_assert_eq!(&answer[ends..ends + width], &question[ends + width..ends + 2 * width]);
        prop_assert_eq!(&answer[ends + width..ends + 2 * width], &question[ends..ends + width]);
        let (packet, udp) = answer[front..].split_at(header);
        let length = u16::try_from(udp.len()).unwrap().to_be_bytes();
        if is_ipv6 {
            prop_assert_eq!((&packet[4..6], packet[6]), (&length[..], UDP));
        } else {
            prop_assert_eq!(
                u16::from_be_bytes([packet[2], packet[3]]),
                u16::from_be_bytes(length) + 20
            );
            prop_assert_eq!(
                (packet[0], packet[9], ones_complement_sum(packet)),
                (0x45, UDP, 0xffff)
            );
        }
        prop_assert_eq!(&udp[4..6], length);
        prop_assert_eq!(&udp[..4], [0, 53, 200, 1]);
        let pseudo = [&answer[ends..ends + 2 * width], &[0, UDP], &length].concat();
        prop_assert_eq!(ones_complement_sum(&[&pseudo, udp].concat()), 0xffff);
        let said = &udp[8..];
        prop_assert_eq!(&said[..2], identification);
        prop_assert_eq!(said[2], 0x82 | (flags[0] & 1));
        prop_assert_eq!(said[3], flags[0] << 7 | (flags[1] & 0x10));
        prop_assert_eq!(&said[4..12], [0, 1, 0, 0, 0, 0, 0, 0]);
        prop_assert_eq!(&said[12..], &message.name_and_type());
    }

    /// For any bytes: a packet that is not answered stays as it was.
    #[test]
    fn what_is_not_answered_is_unchanged(
        is_ipv6: bool, at in 0_usize..80, bit in 0..8_u8,
        noise in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let mut changed = frame(0, is_ipv6, &Message::new(USUAL).bytes());
        if let Some(byte) = changed.get_mut(at) {
            *byte ^= 1 << bit;
        }
        for frame in [changed, noise] {
            let mut answer = frame.clone();
            let bytes = answered(&mut answer);
            prop_assert_eq!(bytes.is_some(), bytes_of(&frame).is_some());
            if let Some(bytes) = bytes {
                prop_assert!(usize::from(bytes) <= frame.len());
            } else {
                prop_assert_eq!(answer, frame);
            }
        }
    }
}

#[track_caller]
fn check(message: &Message, expected: Option<u16>) {
    for is_ipv6 in [false, true] {
        assert_eq!(bytes_of(&frame(0, is_ipv6, &message.bytes())), expected);
    }
}

fn bytes_of(frame: &[u8]) -> Option<u16> {
    question_bytes(Cursor::new(frame), LinkLayer::Ethernet, name_bytes)
}

fn answered(frame: &mut [u8]) -> Option<u16> {
    let range = frame.as_mut_ptr_range();
    // SAFETY: the range is that of a live vector, of which the cursor has a copy.
    let front = unsafe { Front::from_raw(range.start, range.end) };
    let copy = frame.to_vec();
    write_query(
        Cursor::new(&copy),
        &front,
        LinkLayer::Ethernet,
        |frame, link_layer| question_bytes(frame, link_layer, name_bytes),
        sum,
    )
}

#[derive(Clone)]
struct Message<'a> {
    identification: [u8; 2],
    flags: [u8; 2],
    records: [u8; 4],
    labels: &'a [usize],
    behind: &'a [u8],
}

impl<'a> Message<'a> {
    fn new(labels: &'a [usize]) -> Self {
        Self {
            identification: [7, 9],
            flags: [1, 0],
            records: [1, 0, 0, 0],
            labels,
            behind: &[],
        }
    }

    fn name_and_type(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for &label in self.labels {
            bytes.push(u8::try_from(label).unwrap());
            bytes.extend(std::iter::repeat_n(b'a', label));
        }
        bytes.extend([0, 0, 1, 0, 1]);
        bytes
    }

    fn bytes(&self) -> Vec<u8> {
        let counts = self.records.map(|count| [0, count]).concat();
        let header = [self.identification, self.flags].concat();
        [&header, &counts, &self.name_and_type()[..], self.behind].concat()
    }
}

fn frame(tags: usize, is_ipv6: bool, message: &[u8]) -> Vec<u8> {
    let mut frame = std::vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    for tag in 0..tags {
        frame.extend([0x81, 0, 0, 7 + u8::try_from(tag).unwrap()]);
    }
    let bytes = u16::try_from(8 + message.len()).unwrap();
    if is_ipv6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(bytes.to_be_bytes());
        frame.extend([UDP, 64]);
        frame.extend([[0x20; 16], [0x30; 16]].concat());
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((bytes + 20).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, UDP, 0, 0, 192, 0, 2, 1, 198, 51, 100, 7]);
    }
    frame.extend([200, 1, 0, 53]);
    frame.extend(bytes.to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(message);
    frame
}

/// The sum of RFC 1071: all ones if a checksum among the bytes is right.
fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let words =
        words.map(|word| u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)])));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()
}
