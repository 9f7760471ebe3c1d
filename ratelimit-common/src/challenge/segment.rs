//! A TCP segment, as far as the challenge looks at it.

use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use crate::{
    Address, Cursor, Ipv4, Ipv6,
    parse::{
        Connection, LinkLayer, Payload, ipv4,
        ipv6::{self, Walk},
        payload,
        transport::{ACK, FIN, OFFSET_MAX, RST, SYN, UpperLayer},
    },
};

/// A TCP header without options (RFC 9293, 3.1).
#[derive(Clone, Copy, FromBytes, Immutable, IntoBytes, Unaligned)]
#[repr(C)]
pub(super) struct Header {
    pub ports: [[u8; 2]; 2],
    pub sequence: [u8; 4],
    pub acknowledgement: [u8; 4],
    pub words: u8,
    pub flags: u8,
    pub window: [u8; 2],
    pub checksum: [u8; 2],
    pub urgent: [u8; 2],
}
/// Bytes of it.
pub const HEADER_BYTES: u16 = 20;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES as usize);

/// What is known of a segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment<A> {
    /// Both ends.
    pub connection: Connection<A>,
    /// The sequence number.
    pub sequence: u32,
    /// Where it lies.
    pub place: Place,
    /// The flags.
    flags: u8,
    /// Words of 4 bytes in its header, in the upper half.
    words: u8,
}

/// Where a segment lies, in bytes from the front of its frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// To the network header.
    pub packet: u16,
    /// To the transport header.
    pub segment: u16,
}

/// Addresses as they stand in the packets of a segment.
pub trait InSegment: Address {
    /// The upper layer of the packet in `frame`, a cursor at its front. `walk` looks through extension headers.
    fn upper<'a>(
        frame: Cursor<'a>,
        link_layer: LinkLayer,
        walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
    ) -> Option<UpperLayer>;

    /// The segment in `frame`, a cursor at its front, whose upper layer is known; `None` when it is none, or not all of its header
    /// is there.
    fn segment(
        frame: Cursor<'_>,
        link_layer: LinkLayer,
        upper: UpperLayer,
    ) -> Option<Segment<Self>>;
}

impl InSegment for Ipv4 {
    #[inline(always)]
    fn upper<'a>(
        frame: Cursor<'a>,
        link_layer: LinkLayer,
        _: impl FnOnce(Cursor<'a>, u8) -> Walk,
    ) -> Option<UpperLayer> {
        let mut cursor = frame;
        let Ok(Payload::Ipv4) = payload(&mut cursor, link_layer) else {
            return None;
        };
        Some(ipv4::flow(&mut cursor)?.upper)
    }

    #[inline(always)]
    fn segment(
        frame: Cursor<'_>,
        link_layer: LinkLayer,
        upper: UpperLayer,
    ) -> Option<Segment<Self>> {
        let mut cursor = frame;
        let Ok(Payload::Ipv4) = payload(&mut cursor, link_layer) else {
            return None;
        };
        // A header that counts fewer words than it has is one that every stack drops.
        if upper.offset() < cursor.offset().wrapping_add(ipv4::HEADER_BYTES) {
            return None;
        }
        Segment::of_upper(ipv4::addresses(cursor)?, frame, cursor.offset(), upper)
    }
}

impl InSegment for Ipv6 {
    #[inline(always)]
    fn upper<'a>(
        frame: Cursor<'a>,
        link_layer: LinkLayer,
        walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
    ) -> Option<UpperLayer> {
        let mut cursor = frame;
        let Ok(Payload::Ipv6) = payload(&mut cursor, link_layer) else {
            return None;
        };
        Some(ipv6::flow(&mut cursor, walk)?.upper)
    }

    #[inline(always)]
    fn segment(
        frame: Cursor<'_>,
        link_layer: LinkLayer,
        upper: UpperLayer,
    ) -> Option<Segment<Self>> {
        let mut cursor = frame;
        let Ok(Payload::Ipv6) = payload(&mut cursor, link_layer) else {
            return None;
        };
        Segment::of_upper(ipv6::addresses(cursor)?, frame, cursor.offset(), upper)
    }
}

impl<A> Segment<A> {
    #[inline(always)]
    fn of_upper(
        addresses: [A; 2],
        mut frame: Cursor<'_>,
        packet: u16,
        upper: UpperLayer,
    ) -> Option<Self> {
        if !upper.is_segment() {
            return None;
        }
        frame.skip(upper.offset() & OFFSET_MAX);
        let header: &Header = frame.take()?;
        Some(Self {
            connection: Connection {
                addresses,
                ports: header.ports,
            },
            sequence: u32::from_be_bytes(header.sequence),
            place: Place {
                packet,
                segment: upper.offset() & OFFSET_MAX,
            },
            flags: header.flags,
            words: header.words,
        })
    }

    /// Whether it asks for a connection.
    #[inline(always)]
    pub const fn asks_for_connection(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == SYN
    }

    /// Whether it acknowledges, and neither opens nor ends.
    #[inline(always)]
    pub const fn acknowledges(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == ACK
    }

    /// Bytes of the options in its header, at most 40.
    #[inline(always)]
    pub const fn option_bytes(&self) -> u16 {
        let bytes = ((self.words >> 4) as u16).wrapping_mul(4);
        bytes.saturating_sub(HEADER_BYTES)
    }

    /// Whether it is what is sent in answer to an acknowledgement of what was never sent.
    #[inline(always)]
    pub const fn is_reset(&self) -> bool {
        self.flags & (SYN | RST | FIN) == RST
    }
}
