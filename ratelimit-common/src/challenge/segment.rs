//! A TCP segment, parsed as far as the challenge needs.

use zerocopy::{FromBytes, Immutable, IntoBytes, Unaligned};

use crate::{
    Address, Cursor, Family,
    parse::{
        Connection, LinkLayer, ipv4,
        ipv6::Walk,
        payload,
        transport::{ACK, FIN, Fragment, OFFSET_MAX, RST, SYN, SegmentFront, UpperLayer},
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
/// The length of the header in bytes.
pub const HEADER_BYTES: u16 = 20;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES as usize);

/// The fields of a segment, or of the first fragment of a SYN.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Segment<A> {
    /// Both ends.
    pub connection: Connection<A>,
    /// The sequence number.
    pub sequence: u32,
    /// The position of the segment.
    pub offsets: Offsets,
    flags: u8,
    /// The data offset in words of 4 bytes, in the upper half.
    words: u8,
    is_whole: bool,
}

/// The position of a segment, in bytes from the beginning of its frame.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offsets {
    /// The network header.
    pub packet: u16,
    /// The transport header.
    pub segment: u16,
}

/// The upper layer of the packet in `frame`, a cursor at its beginning, if it is of this family.
/// `walk` skips extension headers.
#[inline(always)]
pub fn upper<'a, A: Address>(
    frame: Cursor<'a>,
    link_layer: LinkLayer,
    walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
) -> Option<UpperLayer> {
    let mut cursor = frame;
    if payload(&mut cursor, link_layer) != Ok(A::PAYLOAD) {
        return None;
    }
    Some(A::flow(&mut cursor, walk)?.upper)
}

/// The segment in `frame`, a cursor at its beginning, given its upper layer. `None` if there is
/// none, its header is incomplete, or it goes to a group, which cannot accept connections (RFC
/// 9293, 3.9.2.3).
#[inline(always)]
pub fn segment<A: Address>(
    frame: Cursor<'_>,
    link_layer: LinkLayer,
    upper: UpperLayer,
) -> Option<Segment<A>> {
    let mut cursor = frame;
    if payload(&mut cursor, link_layer) != Ok(A::PAYLOAD) {
        return None;
    }
    // Every stack drops an IPv4 header that is shorter than the minimum.
    let is_short = A::FAMILY == Family::Ipv4
        && upper.offset() < cursor.offset().wrapping_add(ipv4::HEADER_BYTES);
    if is_short || goes_to_group(frame, link_layer) {
        return None;
    }
    Segment::of_upper(A::addresses(cursor)?, frame, cursor.offset(), upper)
}

/// Whether a frame goes to several hosts. Each of them would answer it, with the group's address as
/// its own.
#[inline(always)]
pub(super) fn goes_to_group(mut frame: Cursor<'_>, link_layer: LinkLayer) -> bool {
    link_layer == LinkLayer::Ethernet
        && frame
            .take::<[u8; 1]>()
            .is_some_and(|[first]| first & GROUP != 0)
}

/// The group bit of an Ethernet address.
const GROUP: u8 = 1;

impl<A: Address> Segment<A> {
    #[inline(always)]
    fn of_upper(
        addresses: [A; 2],
        mut frame: Cursor<'_>,
        packet: u16,
        upper: UpperLayer,
    ) -> Option<Self> {
        let [_, destination] = addresses;
        if destination.is_invalid_source() {
            return None;
        }
        if !upper.is_segment() {
            return Self::of_first_part(addresses, frame, packet, upper);
        }
        frame.skip(upper.offset() & OFFSET_MAX);
        let header: &Header = frame.take()?;
        Some(Self {
            connection: Connection {
                addresses,
                ports: header.ports,
            },
            sequence: u32::from_be_bytes(header.sequence),
            offsets: Offsets {
                packet,
                segment: upper.offset() & OFFSET_MAX,
            },
            flags: header.flags,
            words: header.words,
            is_whole: true,
        })
    }

    /// Returns the segment for the first fragment of a SYN, if it includes the flags. The rest is
    /// unknown.
    #[inline(always)]
    fn of_first_part(
        addresses: [A; 2],
        frame: Cursor<'_>,
        packet: u16,
        upper: UpperLayer,
    ) -> Option<Self> {
        let asks = |front: &SegmentFront| front.flags() & (SYN | ACK | RST | FIN) == SYN;
        if !upper.begins_segment()
            || upper.part() == Fragment::First && !upper.segment_front(frame).is_some_and(asks)
        {
            return None;
        }
        Some(Self {
            connection: Connection {
                addresses,
                ports: upper.ports(frame)?,
            },
            sequence: 0,
            offsets: Offsets {
                packet,
                segment: upper.offset() & OFFSET_MAX,
            },
            flags: SYN,
            words: 0,
            is_whole: false,
        })
    }

    /// Whether the segment is complete.
    #[inline(always)]
    pub const fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// Whether it asks for a connection.
    #[inline(always)]
    pub const fn asks_for_connection(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == SYN
    }

    /// Whether it is an acknowledgement without SYN, RST or FIN.
    #[inline(always)]
    pub const fn acknowledges(&self) -> bool {
        self.flags & (SYN | ACK | RST | FIN) == ACK
    }

    /// The length of the options in its header, at most 40.
    #[inline(always)]
    pub const fn option_bytes(&self) -> u16 {
        let bytes = ((self.words >> 4) as u16).wrapping_mul(4);
        bytes.saturating_sub(HEADER_BYTES)
    }

    /// Whether it is the usual answer to a wrong acknowledgement: a RST.
    #[inline(always)]
    pub const fn is_reset(&self) -> bool {
        self.flags & (SYN | RST | FIN) == RST
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ipv4, Ipv6, parse::ipv6};
    use std::vec::Vec;

    use super::*;

    const ENDS_V4: [u8; 8] = [192, 0, 2, 1, 198, 51, 100, 7];
    const PLAIN: [u8; 6] = [2, 0, 0, 0, 0, 1];

    #[test]
    fn a_syn_is_found_in_an_atomic_fragment_and_its_first_part_alone_is_one_that_asks() {
        let atomic = segment_v6(&ipv6([TCP, 0, 0, 0, 0, 0, 0, 7], &tcp(SYN))).unwrap();
        assert!(atomic.is_whole() && atomic.asks_for_connection());
        assert_eq!(atomic.sequence, 0x0102_0304);
        let first = |bytes| segment_v6(&ipv6([TCP, 0, 0, 1, 0, 0, 0, 7], &tcp(SYN)[..bytes]));
        let first_v4 = |part, flags, bytes| {
            let frame = ipv4(PLAIN, ENDS_V4, part, &tcp(flags)[..bytes]);
            segment_v4(&frame)
        };
        let whole = first_v4([0, 0], SYN, 20).unwrap();
        assert!(whole.is_whole());
        // With 8 bytes, the flags are in the next fragment.
        for bytes in [8, 16, 20] {
            let parts = [
                first(bytes).map(|it| (it.is_whole(), it.asks_for_connection())),
                first_v4([0x20, 0], SYN, bytes).map(|it| (it.is_whole(), it.asks_for_connection())),
            ];
            assert_eq!(parts, [Some((false, true)); 2], "{bytes} bytes");
        }
        for flags in [ACK, RST, SYN | ACK, FIN | ACK] {
            assert_eq!(first_v4([0x20, 0], flags, 16), None);
        }
        assert_eq!(first_v4([0, 1], SYN, 20), None);
    }

    #[test]
    fn what_goes_to_a_group_is_no_segment() {
        let to = |hardware, last: [u8; 4]| {
            let ends = [&ENDS_V4[..4], &last].concat().try_into().unwrap();
            segment_v4(&ipv4(hardware, ends, [0, 0], &tcp(SYN))).is_some()
        };
        let host = [198, 51, 100, 7];
        assert!(to(PLAIN, host));
        assert!(!to([0xff; 6], host) && !to([1, 0, 0x5e, 0, 0, 1], host));
        for group in [[224, 0, 0, 1], [239, 255, 255, 255], [255; 4]] {
            assert!(!to(PLAIN, group), "{group:?}");
        }
        let mut frame = ipv6([TCP, 0, 0, 0, 0, 0, 0, 7], &tcp(SYN));
        frame[14 + 24] = 0xff;
        assert_eq!(segment_v6(&frame), None);
    }

    const TCP: u8 = crate::parse::transport::TCP;

    fn tcp(flags: u8) -> Vec<u8> {
        let front = [0xc0, 1, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0x50, flags];
        [&front[..], &[0; 6]].concat()
    }

    fn ipv4(hardware: [u8; 6], ends: [u8; 8], part: [u8; 2], segment: &[u8]) -> Vec<u8> {
        let bytes = u8::try_from(20 + segment.len()).unwrap();
        let header = [0x45, 0, 0, bytes, 0, 0, part[0], part[1], 64, TCP, 0, 0];
        let front = [&hardware[..], &[2, 0, 0, 0, 0, 2, 8, 0]].concat();
        [&front[..], &header, &ends, segment].concat()
    }

    fn ipv6(fragment: [u8; 8], segment: &[u8]) -> Vec<u8> {
        let bytes = u8::try_from(8 + segment.len()).unwrap();
        let front = [&PLAIN[..], &[2, 0, 0, 0, 0, 2, 0x86, 0xdd]].concat();
        let header = [0x60, 0, 0, 0, 0, bytes, 44, 64];
        [&front[..], &header, &[0x20; 32], &fragment, segment].concat()
    }

    fn segment_v4(frame: &[u8]) -> Option<Segment<Ipv4>> {
        read(frame)
    }

    fn segment_v6(frame: &[u8]) -> Option<Segment<Ipv6>> {
        read(frame)
    }

    fn read<A: Address>(frame: &[u8]) -> Option<Segment<A>> {
        let frame = Cursor::new(frame);
        let upper = upper::<A>(frame, LinkLayer::Ethernet, ipv6::walk)?;
        segment::<A>(frame, LinkLayer::Ethernet, upper)
    }
}
