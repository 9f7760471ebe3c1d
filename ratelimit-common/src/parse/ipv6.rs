//! The IPv6 header and its extension headers (RFC 8200).

use zerocopy::{FromBytes, Immutable, Unaligned};

use crate::{Cursor, Flow, Ipv6, flow::Content};

/// The most extension headers that are looked through. RFC 8200 allows each of seven kinds once, destination options twice.
pub const EXTENSION_HEADERS_MAX: usize = 8;

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
/// The bits of a fragment's offset, in the third and fourth byte of its header.
const FRAGMENT_OFFSET: u16 = 0xfff8;
const AUTHENTICATION: u8 = 51;
const ICMPV6: u8 = 58;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;

/// Router solicitation, router advertisement, neighbour solicitation, neighbour advertisement, redirect (RFC 4861, 4).
const NEIGHBOUR_DISCOVERY: core::ops::RangeInclusive<u8> = 133..=137;
/// A packet with this hop limit was sent on the link: routers lower it (RFC 4861, 3.1).
const HOP_LIMIT_ON_LINK: u8 = 255;

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct FixedHeader {
    version_class_label: [u8; 4],
    payload_length: [u8; 2],
    next_header: u8,
    hop_limit: u8,
    source: Ipv6,
    destination: [u8; 16],
}

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct Extension {
    next_header: u8,
    length: u8,
    first: [u8; 2],
}

/// What stands behind the extension headers.
struct UpperLayer {
    protocol: u8,
    fragmented: bool,
}

/// The flow of the packet at `cursor`; `None` when its fixed header is cut.
#[inline(always)]
pub(super) fn flow(cursor: &mut Cursor<'_>) -> Option<Flow<Ipv6>> {
    let header: &FixedHeader = cursor.take()?;
    Some(Flow {
        source: header.source,
        content: content(cursor, header),
    })
}

#[inline(always)]
fn content(cursor: &mut Cursor<'_>, header: &FixedHeader) -> Content {
    let Some(upper) = upper_layer(cursor, header.next_header) else {
        return Content::TooDeep;
    };
    // Neighbour discovery is never fragmented (RFC 6980).
    if upper.protocol != ICMPV6 || upper.fragmented || header.hop_limit != HOP_LIMIT_ON_LINK {
        return Content::Ordinary;
    }
    match cursor.take::<[u8; 1]>() {
        Some([kind]) if NEIGHBOUR_DISCOVERY.contains(kind) => Content::NeighbourDiscovery,
        _ => Content::Ordinary,
    }
}

/// Moves behind the extension headers; `None` past the bound.
///
/// Behind the header of a fragment other than the first stands no header, and the walk ends there. A cut header ends it too:
/// the packet is judged by its source.
#[inline(always)]
fn upper_layer(cursor: &mut Cursor<'_>, first: u8) -> Option<UpperLayer> {
    let mut upper = UpperLayer {
        protocol: first,
        fragmented: false,
    };
    for _ in 0..EXTENSION_HEADERS_MAX {
        if !is_extension(upper.protocol) {
            return Some(upper);
        }
        let Some(extension) = cursor.take::<Extension>() else {
            return Some(upper);
        };
        if upper.protocol == FRAGMENT {
            upper.fragmented = true;
            if u16::from_be_bytes(extension.first) & FRAGMENT_OFFSET != 0 {
                return Some(upper);
            }
        }
        cursor.skip(bytes_left(upper.protocol, extension.length));
        upper.protocol = extension.next_header;
    }
    (!is_extension(upper.protocol)).then_some(upper)
}

#[inline(always)]
const fn is_extension(protocol: u8) -> bool {
    matches!(
        protocol,
        HOP_BY_HOP | ROUTING | FRAGMENT | AUTHENTICATION | DESTINATION | MOBILITY
    )
}

/// The bytes of an extension header behind its first four. Its length counts units of 8 bytes without the first, that of an
/// authentication header units of 4 without the first two (RFC 4302, 2.2); a fragment header has 8 bytes and no length.
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
