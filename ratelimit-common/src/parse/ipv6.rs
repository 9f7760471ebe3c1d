//! The IPv6 header and its extension headers (RFC 8200).

use zerocopy::{FromBytes, Immutable, Unaligned};

use super::numbers::Numbers;
use super::transport::{FLAGS_END, Fragment, UpperLayer};
use crate::{Cursor, Flow, Ipv6, flow::Content};

/// The most extension headers that are parsed. RFC 8200 allows each of seven kinds once,
/// destination options twice.
pub const EXTENSION_HEADERS_MAX: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
/// The bits of a fragment's offset in the third and fourth byte of its header, and the bit for more
/// fragments.
const FRAGMENT_OFFSET: u16 = 0xfff8;
const MORE_FRAGMENTS: u16 = 1;
const AUTHENTICATION: u8 = 51;
const ICMPV6: u8 = 58;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;

/// Router solicitation, router advertisement, neighbour solicitation, neighbour advertisement,
/// redirect (RFC 4861, 4).
const NEIGHBOUR_DISCOVERY: core::ops::RangeInclusive<u8> = 133..=137;
/// A packet with this hop limit was sent on the link: routers decrement it (RFC 4861, 3.1).
const HOP_LIMIT_ON_LINK: u8 = 255;

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct FixedHeader {
    version_class_label: [u8; 4],
    payload_length: [u8; 2],
    next_header: u8,
    hop_limit: u8,
    source: Ipv6,
    destination: Ipv6,
}

/// Bytes of a header without extensions.
pub const HEADER_BYTES: u16 = 40;
const _: () = assert!(size_of::<FixedHeader>() == HEADER_BYTES as usize);

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct Extension {
    next_header: u8,
    length: u8,
    first: [u8; 2],
}

/// The result of skipping the extension headers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Walk {
    /// The upper layer, or the header at which parsing ended.
    pub upper: UpperLayer,
    /// Whether all extension headers were skipped, and the upper layer is not
    /// [hidden](Self::is_hidden).
    pub is_complete: bool,
}

impl FixedHeader {
    #[inline(always)]
    const fn traffic_class(&self) -> u8 {
        let [first, second, ..] = self.version_class_label;
        first << 4 | second >> 4
    }
}

/// The flow of the packet at `cursor`. `None` if its fixed header is truncated. [`walk`] skips its
/// extension headers, possibly as a subprogram.
#[inline(always)]
pub fn flow<'a>(
    cursor: &mut Cursor<'a>,
    walk: impl FnOnce(Cursor<'a>, u8) -> Walk,
) -> Option<Flow<Ipv6>> {
    let header: &FixedHeader = cursor.take()?;
    if !is_extension(header.next_header) {
        return Some(Flow {
            source: header.source,
            destination: header.destination,
            dscp: header.traffic_class() >> 2,
            content: content(header, *cursor),
            upper: Walk::ended(cursor, header.next_header).upper,
        });
    }
    let Walk {
        mut upper,
        is_complete,
    } = walk(*cursor, header.next_header);
    if upper.part() == Fragment::First {
        let bytes = u16::from_be_bytes(header.payload_length);
        let extensions = upper.offset().wrapping_sub(cursor.offset());
        upper = upper.with_fragment(Fragment::first(bytes.saturating_sub(extensions)));
    }
    Some(Flow {
        source: header.source,
        destination: header.destination,
        dscp: header.traffic_class() >> 2,
        content: if is_complete {
            Content::Ordinary
        } else {
            Content::TooDeep
        },
        upper,
    })
}

/// The source and destination of the packet at `cursor`. `None` if its fixed header is truncated.
#[inline(always)]
pub fn addresses(mut cursor: Cursor<'_>) -> Option<[Ipv6; 2]> {
    let header: &FixedHeader = cursor.take()?;
    Some([header.source, header.destination])
}

/// The hop limit of the packet at `cursor`. `None` if its fixed header is truncated.
#[inline(always)]
pub fn hop_limit(mut cursor: Cursor<'_>) -> Option<u8> {
    cursor.take::<FixedHeader>().map(|header| header.hop_limit)
}

/// The length including the header, the hop limit and the traffic class in the header at `cursor`;
/// 0 if it is truncated.
#[inline(always)]
pub fn numbers(mut cursor: Cursor<'_>) -> Numbers {
    let Some(header) = cursor.take::<FixedHeader>() else {
        return Numbers::default();
    };
    let length = u16::from_be_bytes(header.payload_length).saturating_add(HEADER_BYTES);
    Numbers::new(length, header.hop_limit, header.traffic_class())
}

/// The length of the packet at `cursor` from its header; more than any packet has if the header has
/// none (RFC 2675), and 0 if it is truncated.
#[inline(always)]
pub fn packet_bytes(mut cursor: Cursor<'_>) -> u32 {
    cursor.take::<FixedHeader>().map_or(0, |header| {
        let bytes = u16::from_be_bytes(header.payload_length);
        u32::from(bytes.wrapping_sub(1)).wrapping_add(u32::from(HEADER_BYTES.wrapping_add(1)))
    })
}

/// The payload right behind the fixed header. Neighbour discovery with extension headers is not
/// recognized: no host sends it, and it must not be fragmented (RFC 6980).
#[inline(always)]
fn content(header: &FixedHeader, mut cursor: Cursor<'_>) -> Content {
    if header.next_header != ICMPV6 || header.hop_limit != HOP_LIMIT_ON_LINK {
        return Content::Ordinary;
    }
    match cursor.take::<[u8; 1]>() {
        Some([kind]) if NEIGHBOUR_DISCOVERY.contains(kind) => Content::NeighbourDiscovery,
        _ => Content::Ordinary,
    }
}

impl Walk {
    #[inline(always)]
    const fn ended(cursor: &Cursor<'_>, protocol: u8) -> Self {
        Self {
            upper: UpperLayer::new(protocol, Fragment::Whole, cursor.offset()),
            is_complete: true,
        }
    }

    /// Whether the frame has more bytes than the `readable` ones, and those that classes need of
    /// the header where parsing ended are not among these.
    #[inline(always)]
    pub const fn is_hidden(upper: UpperLayer, readable: u32, frame_bytes: u32) -> bool {
        readable < frame_bytes
            && readable < (upper.offset() as u32).wrapping_add(FLAGS_END as u32)
            && !matches!(upper.part(), Fragment::Later)
    }
}

/// Skips the extension headers from `cursor`, which is at the header of the protocol `first`.
///
/// Only the first fragment has further headers. At any other fragment, or where the frame ends in a
/// header, parsing ends: the packet is judged by its source.
#[inline(always)]
pub fn walk(cursor: Cursor<'_>, first: u8) -> Walk {
    let mut walk = skip(cursor, first);
    let is_hidden = Walk::is_hidden(walk.upper, cursor.readable(), cursor.frame_bytes());
    walk.is_complete = walk.is_complete && !is_hidden;
    walk
}

#[inline(always)]
fn skip(mut cursor: Cursor<'_>, first: u8) -> Walk {
    let mut walk = Walk::ended(&cursor, first);
    for _ in 0..EXTENSION_HEADERS_MAX {
        let header = walk.upper.protocol();
        if !is_extension(header) {
            return walk;
        }
        let Some(extension) = cursor.take::<Extension>() else {
            return walk;
        };
        cursor.skip(bytes_left(header, extension.length));
        let mut part = walk.upper.part();
        if header == FRAGMENT {
            part = fragment(extension.first, part);
        }
        walk.upper = UpperLayer::new(extension.next_header, part, cursor.offset());
        if part == Fragment::Later {
            return walk;
        }
    }
    walk.is_complete = !is_extension(walk.upper.protocol());
    walk
}

/// The fragment described by a fragment header. An atomic fragment is complete: it continues the
/// fragment before it, if there was one (RFC 6946).
#[inline(always)]
const fn fragment(offset_and_flags: [u8; 2], before: Fragment) -> Fragment {
    let bits = u16::from_be_bytes(offset_and_flags);
    if bits & FRAGMENT_OFFSET != 0 {
        Fragment::Later
    } else if bits & MORE_FRAGMENTS != 0 {
        Fragment::First
    } else {
        before
    }
}

#[inline(always)]
const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY
    )
}

/// The bytes of an extension header after its first four. Its length counts units of 8 bytes
/// without the first, that of an authentication header units of 4 without the first two (RFC 4302,
/// 2.2). A fragment header has 8 bytes and no length.
#[inline(always)]
const fn bytes_left(protocol: u8, length: u8) -> u16 {
    let length = length as u16;
    let further = match protocol {
        FRAGMENT => 0,
        AUTHENTICATION => length.wrapping_mul(4),
        _ => length.wrapping_mul(8),
    };
    further.wrapping_add(4)
}
