//! The answer to a segment that asks for a connection, written over it: back to where it came from, through the same VLANs.
//!
//! The SYN-ACK has no options, whatever the question had, so it is as long as headers are. What stood behind them in the frame stays,
//! as the padding of a frame does, unless the frame is cut.

use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned, transmute};

use super::{
    cookie::{self, Message},
    segment::{Header, InSegment as _, Segment},
};
use crate::{
    Address, Cursor, Instant, Ipv4, Ipv6,
    parse::{
        Connection, LinkLayer, Payload, ipv4,
        ipv6::{self, Walk},
        payload,
        transport::{ACK, SYN, TCP, UpperLayer},
    },
};

mod checksum;
mod front;

pub use front::Front;

const HOPS: u8 = 64;
/// Words of 4 bytes in a TCP header without options, in the upper half of a byte.
const TCP_WORDS: u8 = 5 << 4;
const TCP_BYTES: u16 = 20;
const IPV4_BYTES: u16 = 20 + TCP_BYTES;
const IPV6_BYTES: u16 = 40 + TCP_BYTES;

/// An IPv4 header without options (RFC 791).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Ipv4Header {
    version_and_words: u8,
    service: u8,
    bytes: [u8; 2],
    identification: [u8; 2],
    flags: [u8; 2],
    hops: u8,
    protocol: u8,
    checksum: [u8; 2],
    source: Ipv4,
    destination: Ipv4,
}

/// An IPv6 header (RFC 8200).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Ipv6Header {
    version_class_label: [u8; 4],
    bytes: [u8; 2],
    next_header: u8,
    hops: u8,
    source: Ipv6,
    destination: Ipv6,
}

/// A header, and the segment behind it.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Packet<H> {
    header: H,
    segment: Header,
}

/// Writes the answer to the question in `frame` into `front`, which is the same frame. Answers its bytes; `None` when it is no question, and
/// then the frame is as it was.
#[inline(always)]
pub fn write<'a>(
    frame: Cursor<'a>,
    front: &Front<'_>,
    link_layer: LinkLayer,
    walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
    hash: impl Fn(&Message) -> u32,
    now: Instant,
) -> Option<u16> {
    let mut cursor = frame;
    let bytes = match payload(&mut cursor, link_layer) {
        Ok(Payload::Ipv4) => {
            let start = cursor.offset();
            let upper = ipv4::flow(&mut cursor)?.upper;
            write_ipv4(start, (frame, front), link_layer, upper, hash, now)?
        }
        Ok(Payload::Ipv6) => {
            let start = cursor.offset();
            let upper = ipv6::flow(&mut cursor, walk)?.upper;
            write_ipv6(start, (frame, front), link_layer, upper, hash, now)?
        }
        Ok(Payload::Other) | Err(_) => return None,
    };
    if link_layer == LinkLayer::Ethernet {
        let mut cursor = frame;
        let [destination, source] = *cursor.take::<[[u8; 6]; 2]>()?;
        front.put(0, &[source, destination])?;
    }
    Some(bytes)
}

#[inline(always)]
fn write_ipv4(
    start: u16,
    (frame, front): (Cursor<'_>, &Front<'_>),
    link_layer: LinkLayer,
    upper: UpperLayer,
    hash: impl Fn(&Message) -> u32,
    now: Instant,
) -> Option<u16> {
    let question = Ipv4::segment(frame, link_layer, upper)?;
    let answer = ipv4(&question, hash(&cookie::message(&question.connection, now)));
    front.put(start, &answer)?;
    Some(start.wrapping_add(IPV4_BYTES))
}

#[inline(always)]
fn write_ipv6(
    start: u16,
    (frame, front): (Cursor<'_>, &Front<'_>),
    link_layer: LinkLayer,
    upper: UpperLayer,
    hash: impl Fn(&Message) -> u32,
    now: Instant,
) -> Option<u16> {
    let question = Ipv6::segment(frame, link_layer, upper)?;
    let answer = ipv6(&question, hash(&cookie::message(&question.connection, now)));
    front.put(start, &answer)?;
    Some(start.wrapping_add(IPV6_BYTES))
}

/// The packet of IPv4 that answers `question`.
#[inline(always)]
fn ipv4(question: &Segment<Ipv4>, cookie: u32) -> [u8; IPV4_BYTES as usize] {
    let [source, destination] = question.connection.addresses;
    let header = Ipv4Header {
        version_and_words: 0x45,
        service: 0,
        bytes: IPV4_BYTES.to_be_bytes(),
        identification: [0; 2],
        // Not to be fragmented: then the identification means nothing (RFC 6864, 4.1).
        flags: [0x40, 0],
        hops: HOPS,
        protocol: TCP,
        checksum: [0; 2],
        source: destination,
        destination: source,
    };
    let bytes: [u8; 20] = transmute!(header);
    let header = Ipv4Header {
        checksum: checksum::of(checksum::sum(&bytes)),
        ..header
    };
    let ends: [u8; 8] = transmute!([source, destination]);
    let segment = segment(&question.connection, cookie, checksum::sum(&ends));
    transmute!(Packet { header, segment })
}

/// The same of IPv6.
#[inline(always)]
fn ipv6(question: &Segment<Ipv6>, cookie: u32) -> [u8; IPV6_BYTES as usize] {
    let [source, destination] = question.connection.addresses;
    let header = Ipv6Header {
        version_class_label: [0x60, 0, 0, 0],
        bytes: TCP_BYTES.to_be_bytes(),
        next_header: TCP,
        hops: HOPS,
        source: destination,
        destination: source,
    };
    let ends: [u8; 32] = transmute!([source, destination]);
    let segment = segment(&question.connection, cookie, checksum::sum(&ends));
    transmute!(Packet { header, segment })
}

/// The segment that answers, where `ends` is the sum of both addresses.
#[inline(always)]
fn segment<A: Address>(connection: &Connection<A>, cookie: u32, ends: u32) -> Header {
    let [from, to] = connection.ports;
    let header = Header {
        ports: [to, from],
        sequence: [0; 4],
        acknowledgement: cookie.to_be_bytes(),
        words: TCP_WORDS,
        flags: SYN | ACK,
        window: [0; 2],
        checksum: [0; 2],
        urgent: [0; 2],
    };
    let bytes: [u8; TCP_BYTES as usize] = transmute!(header);
    // What stands in front of a segment only to be summed (RFC 9293, 3.1).
    let pseudo = ends.wrapping_add(TCP.into()).wrapping_add(TCP_BYTES.into());
    Header {
        checksum: checksum::of(pseudo.wrapping_add(checksum::sum(&bytes))),
        ..header
    }
}

#[cfg(test)]
mod tests;
