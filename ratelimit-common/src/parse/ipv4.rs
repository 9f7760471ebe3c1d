//! The IPv4 header (RFC 791). Its source address stands at the same place whatever its options and fragments are.

use zerocopy::{FromBytes, Immutable, Unaligned};

use crate::{Cursor, Flow, Ipv4, flow::Content};

#[derive(FromBytes, Immutable, Unaligned)]
#[repr(C)]
struct Header {
    version_and_length: u8,
    service: u8,
    total_length: [u8; 2],
    identification: [u8; 2],
    flags_and_offset: [u8; 2],
    time_to_live: u8,
    protocol: u8,
    checksum: [u8; 2],
    source: Ipv4,
    destination: [u8; 4],
}

/// The flow of the packet at `cursor`; `None` when its header is cut.
#[inline(always)]
pub(super) fn flow(cursor: &mut Cursor<'_>) -> Option<Flow<Ipv4>> {
    let header: &Header = cursor.take()?;
    Some(Flow {
        source: header.source,
        content: Content::Ordinary,
    })
}
