//! Writes the answer to a SYN over it, and returns it through the same VLANs.
//!
//! The SYN-ACK has no options, whatever the SYN had, so its length is that of the headers. One with
//! a listener's cookie has [options](super::options) if the SYN had as many bytes of them, so it is
//! not longer either. Any bytes behind remain as padding of the frame, unless the frame is cut.

use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned, transmute};

use super::{
    ChallengeState, cookie,
    options::{Request, Written},
    segment::{self, HEADER_BYTES, Header, Segment},
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

pub(super) mod checksum;
mod front;
mod query;

pub use front::Front;
pub use query::{sum, write_query};

/// A cookie of a listener.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenerCookie {
    /// The sequence number.
    pub sequence: u32,
    /// The segment size that it encodes, in bytes.
    pub segment_bytes: u16,
}

/// The content of a SYN-ACK, except for its ports.
struct Said {
    sequence: u32,
    acknowledgement: u32,
    window: u16,
    options: Written,
}

/// Ten segments of the smallest usual size, the initial window of a sender (RFC 6928). The listener
/// sends its own window later.
const WINDOW: u16 = 10 * 1220;
/// The segment sizes for Ethernet, over IPv4 and over IPv6.
const SEGMENT_BYTES_MAX_V4: u16 = 1460;
const SEGMENT_BYTES_MAX_V6: u16 = 1440;

const HOPS: u8 = 64;
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

impl Ipv4Header {
    /// Creates the header of an answer to a packet with these addresses, with a length of `bytes`
    /// including this header.
    #[inline(always)]
    fn new([source, destination]: [Ipv4; 2], protocol: u8, bytes: u16) -> Self {
        let header = Self {
            version_and_words: 0x45,
            service: 0,
            bytes: bytes.to_be_bytes(),
            identification: [0; 2],
            // Don't fragment: the identification then has no meaning (RFC 6864, 4.1).
            flags: [0x40, 0],
            hops: HOPS,
            protocol,
            checksum: [0; 2],
            source: destination,
            destination: source,
        };
        let bytes: [u8; 20] = transmute!(header);
        Self {
            checksum: checksum::of(checksum::sum(&bytes)),
            ..header
        }
    }
}

impl Ipv6Header {
    /// Creates the header of an answer with `bytes` behind this header.
    #[inline(always)]
    const fn new([source, destination]: [Ipv6; 2], next_header: u8, bytes: u16) -> Self {
        Self {
            version_class_label: [0x60, 0, 0, 0],
            bytes: bytes.to_be_bytes(),
            next_header,
            hops: HOPS,
            source: destination,
            destination: source,
        }
    }
}

/// A header and its segment.
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
struct Packet<H> {
    header: H,
    segment: Header,
}

/// Writes the answer to the SYN in `frame` into `front`, which is the same frame. Returns its
/// bytes. `None` if it is no SYN; the frame is then unchanged.
#[inline(always)]
pub fn write<'a>(
    frame: Cursor<'a>,
    front: &Front<'_>,
    link_layer: LinkLayer,
    walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
    state: &(impl ChallengeState<Ipv4> + ChallengeState<Ipv6>),
    now: Instant,
) -> Option<u16> {
    let mut cursor = frame;
    let bytes = match payload(&mut cursor, link_layer) {
        Ok(Payload::Ipv4) => {
            let start = cursor.offset();
            let upper = ipv4::flow(&mut cursor)?.upper;
            write_ipv4(start, (frame, front), link_layer, upper, state, now)?
        }
        Ok(Payload::Ipv6) => {
            let start = cursor.offset();
            let upper = ipv6::flow(&mut cursor, walk)?.upper;
            write_ipv6(start, (frame, front), link_layer, upper, state, now)?
        }
        Ok(Payload::Other) | Err(_) => return None,
    };
    turn_back(frame, front, link_layer)?;
    Some(bytes)
}

/// Swaps the addresses of a frame.
#[inline(always)]
fn turn_back(frame: Cursor<'_>, front: &Front<'_>, link_layer: LinkLayer) -> Option<()> {
    if link_layer == LinkLayer::Ethernet {
        let mut cursor = frame;
        let [destination, source] = *cursor.take::<[[u8; 6]; 2]>()?;
        front.put(0, &[source, destination])?;
    }
    Some(())
}

#[inline(always)]
fn write_ipv4(
    start: u16,
    (frame, front): (Cursor<'_>, &Front<'_>),
    link_layer: LinkLayer,
    upper: UpperLayer,
    state: &impl ChallengeState<Ipv4>,
    now: Instant,
) -> Option<u16> {
    let question = segment::segment::<Ipv4>(frame, link_layer, upper).filter(Segment::is_whole)?;
    let options = start.wrapping_add(IPV4_BYTES);
    let said = said(&question, options, state, now)?;
    front.put(start, &ipv4(&question, &said))?;
    Some(options.wrapping_add(said.options.bytes))
}

#[inline(always)]
fn write_ipv6(
    start: u16,
    (frame, front): (Cursor<'_>, &Front<'_>),
    link_layer: LinkLayer,
    upper: UpperLayer,
    state: &impl ChallengeState<Ipv6>,
    now: Instant,
) -> Option<u16> {
    let question = segment::segment::<Ipv6>(frame, link_layer, upper).filter(Segment::is_whole)?;
    let options = start.wrapping_add(IPV6_BYTES);
    let said = said(&question, options, state, now)?;
    front.put(start, &ipv6(&question, &said))?;
    Some(options.wrapping_add(said.options.bytes))
}

/// Returns the answer to `question`: the listener's cookie, or one of this host as an
/// acknowledgement of data that was never sent. Options are written at this offset in the frame;
/// `None` if it has no room for them.
#[inline(always)]
fn said<A: Address>(
    question: &Segment<A>,
    options: u16,
    state: &impl ChallengeState<A>,
    now: Instant,
) -> Option<Said> {
    let Some(cookie) = state.listener_cookie(question) else {
        return Some(Said {
            sequence: 0,
            acknowledgement: state.cookie(&cookie::message(&question.connection, now)),
            window: 0,
            options: Written::default(),
        });
    };
    let segment_bytes_max = if A::BITS > 32 {
        SEGMENT_BYTES_MAX_V6
    } else {
        SEGMENT_BYTES_MAX_V4
    };
    let request = Request {
        from: question.offsets.segment.wrapping_add(HEADER_BYTES),
        bytes: question.option_bytes(),
        to: options,
        segment_bytes: cookie.segment_bytes.min(segment_bytes_max),
    };
    Some(Said {
        sequence: cookie.sequence,
        acknowledgement: question.sequence.wrapping_add(1),
        window: WINDOW,
        options: state.write_options(request, now)?,
    })
}

#[inline(always)]
fn ipv4(question: &Segment<Ipv4>, said: &Said) -> [u8; IPV4_BYTES as usize] {
    let [source, destination] = question.connection.addresses;
    let bytes = IPV4_BYTES.wrapping_add(said.options.bytes);
    let header = Ipv4Header::new(question.connection.addresses, TCP, bytes);
    let ends: [u8; 8] = transmute!([source, destination]);
    let segment = segment(&question.connection, said, checksum::sum(&ends));
    transmute!(Packet { header, segment })
}

#[inline(always)]
fn ipv6(question: &Segment<Ipv6>, said: &Said) -> [u8; IPV6_BYTES as usize] {
    let [source, destination] = question.connection.addresses;
    let bytes = TCP_BYTES.wrapping_add(said.options.bytes);
    let header = Ipv6Header::new(question.connection.addresses, TCP, bytes);
    let ends: [u8; 32] = transmute!([source, destination]);
    let segment = segment(&question.connection, said, checksum::sum(&ends));
    transmute!(Packet { header, segment })
}

/// Creates the answer's segment, given the sum of both addresses.
#[inline(always)]
fn segment<A: Address>(connection: &Connection<A>, said: &Said, ends: u32) -> Header {
    let bytes = TCP_BYTES.wrapping_add(said.options.bytes);
    let [from, to] = connection.ports;
    let header = Header {
        ports: [to, from],
        sequence: said.sequence.to_be_bytes(),
        acknowledgement: said.acknowledgement.to_be_bytes(),
        // Words of 4 bytes, in the upper half.
        words: bytes.to_be_bytes()[1].wrapping_shl(2),
        flags: SYN | ACK,
        window: said.window.to_be_bytes(),
        checksum: [0; 2],
        urgent: [0; 2],
    };
    let written: [u8; TCP_BYTES as usize] = transmute!(header);
    // The pseudo header, which is only part of the sum (RFC 9293, 3.1).
    let pseudo = ends.wrapping_add(TCP.into()).wrapping_add(bytes.into());
    let sum = pseudo.wrapping_add(said.options.sum);
    Header {
        checksum: checksum::of(sum.wrapping_add(checksum::sum(&written))),
        ..header
    }
}

#[cfg(test)]
mod tests;
