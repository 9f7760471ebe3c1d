//! Writes the answer to a DNS query over it: an empty, truncated response.

use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned, transmute};

use super::{Ipv4Header, Ipv6Header, checksum, front::Front, turn_back};
use crate::{
    Cursor,
    challenge::query::{HEADER_BYTES, Header, QUESTION_BYTES_MAX, UDP_BYTES, Udp},
    parse::{
        LinkLayer, Payload,
        ipv4::{self, HEADER_BYTES as IPV4_BYTES},
        ipv6::{self, HEADER_BYTES as IPV6_BYTES},
        payload,
        transport::UDP,
    },
};

/// Flags of a message: response, truncated, and recursion desired and available.
const IS_ANSWER: u8 = 1 << 7;
const IS_TRUNCATED: u8 = 1 << 1;
const RECURSION_IS_DESIRED: u8 = 1 << 0;
const RECURSION_IS_OFFERED: u8 = 1 << 7;
/// In the second byte of the query: data without DNSSEC validation is acceptable.
const CHECKING_IS_DISABLED: u8 = 1 << 4;

/// The headers before the question.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Datagram {
    udp: Udp,
    header: Header,
}

/// Writes the answer to the query in `frame` into `front`, which is the same frame. The question
/// stays in place, and everything behind it is cut. Its [sum] is computed by a function argument,
/// which is a subprogram in the kernel. Returns the bytes of the frame. `None` if the query is not
/// answered; the frame is then unchanged.
#[inline(always)]
pub fn write_query(
    frame: Cursor<'_>,
    front: &Front<'_>,
    link_layer: LinkLayer,
    question_bytes: impl FnOnce(Cursor<'_>, LinkLayer) -> Option<u16>,
    sum: impl FnOnce(Cursor<'_>, u16) -> Option<u32>,
) -> Option<u16> {
    let bytes = question_bytes(frame, link_layer)?.min(QUESTION_BYTES_MAX);
    let bytes = bytes.wrapping_add(UDP_BYTES);
    let mut cursor = frame;
    // The query is complete, so nothing fails from here on.
    let (network_bytes, ends) = match payload(&mut cursor, link_layer) {
        Ok(Payload::Ipv4) => {
            let addresses = ipv4::addresses(cursor)?;
            let packet_bytes = bytes.wrapping_add(IPV4_BYTES);
            let header = Ipv4Header::new(addresses, UDP, packet_bytes);
            front.put(cursor.offset(), &header)?;
            let ends: [u8; 8] = transmute!(addresses);
            (IPV4_BYTES, checksum::sum(&ends))
        }
        Ok(Payload::Ipv6) => {
            let addresses = ipv6::addresses(cursor)?;
            let header = Ipv6Header::new(addresses, UDP, bytes);
            front.put(cursor.offset(), &header)?;
            let ends: [u8; 32] = transmute!(addresses);
            (IPV6_BYTES, checksum::sum(&ends))
        }
        Ok(Payload::Other) | Err(_) => return None,
    };
    cursor.skip(network_bytes);
    let start = cursor.offset();
    front.put(start, &datagram(cursor, bytes, ends, sum)?)?;
    turn_back(frame, front, link_layer)?;
    Some(start.wrapping_add(bytes))
}

/// Creates the headers of the answer to the datagram at `cursor`, of which `bytes` are returned,
/// given the sum of both addresses.
#[inline(always)]
fn datagram(
    mut cursor: Cursor<'_>,
    bytes: u16,
    ends: u32,
    sum: impl FnOnce(Cursor<'_>, u16) -> Option<u32>,
) -> Option<Datagram> {
    let udp: &Udp = cursor.take()?;
    let header: &Header = cursor.take()?;
    let [from, to] = udp.ports;
    let [first, second] = header.flags;
    let desired = first & RECURSION_IS_DESIRED;
    // The resolver of glibc would take an empty response without the recursion available flag for
    // one of a server that cannot help.
    let offered = if desired == 0 {
        0
    } else {
        RECURSION_IS_OFFERED
    };
    let answer = Datagram {
        udp: Udp {
            ports: [to, from],
            bytes: bytes.to_be_bytes(),
            checksum: [0; 2],
        },
        header: Header {
            identification: header.identification,
            flags: [
                IS_ANSWER | IS_TRUNCATED | desired,
                offered | second & CHECKING_IS_DISABLED,
            ],
            counts: [[0, 1], [0; 2], [0; 2], [0; 2]],
        },
    };
    let question = bytes.wrapping_sub(UDP_BYTES).wrapping_sub(HEADER_BYTES);
    let written: [u8; (UDP_BYTES + HEADER_BYTES) as usize] = transmute!(answer);
    // The pseudo header, which is only part of the sum (RFC 768).
    let pseudo = ends.wrapping_add(UDP.into()).wrapping_add(bytes.into());
    let whole = pseudo
        .wrapping_add(checksum::sum(&written))
        .wrapping_add(sum(cursor, question)?);
    let checksum = match checksum::of(whole) {
        // 0 would mean that there is no checksum.
        [0, 0] => [0xff; 2],
        sum => sum,
    };
    Some(Datagram {
        udp: Udp {
            checksum,
            ..answer.udp
        },
        ..answer
    })
}

/// Returns the sum of the 2-byte words of the next `bytes` bytes, the last padded with 0. `None` if
/// they are incomplete.
#[inline(always)]
pub fn sum(mut cursor: Cursor<'_>, bytes: u16) -> Option<u32> {
    let mut sum = 0_u32;
    // The odd byte first: the verifier follows the end of the loop once for each length.
    if bytes & 1 != 0 {
        let mut end = cursor;
        end.skip(bytes.wrapping_sub(1) & OFFSET_MASK);
        let [last] = *end.take::<[u8; 1]>()?;
        sum = u16::from_be_bytes([last, 0]).into();
    }
    let words = u32::from(bytes / 2);
    for index in 0..WORDS_MAX {
        if index >= words {
            break;
        }
        let word = cursor.take::<[u8; 2]>()?;
        sum = sum.wrapping_add(u16::from_be_bytes(*word).into());
    }
    Some(sum)
}

/// The whole words of the longest question.
const WORDS_MAX: u32 = (QUESTION_BYTES_MAX - HEADER_BYTES) as u32 / 2;

/// The offset of any byte of a question, as the verifier wants to see.
const OFFSET_MASK: u16 = (QUESTION_BYTES_MAX - HEADER_BYTES).next_power_of_two() - 1;
