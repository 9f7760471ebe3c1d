//! The IPv4 header (RFC 791). Its source address stands at the same place whatever its options and fragments are.

use zerocopy::{FromBytes, Immutable, Unaligned};

use super::numbers::Numbers;
use super::transport::{Fragment, UpperLayer};
use crate::{Cursor, Flow, Ipv4, flow::Content};

/// The bits of `flags_and_offset`.
const MORE_FRAGMENTS: u16 = 0x2000;
const FRAGMENT_OFFSET: u16 = 0x1fff;

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
    destination: Ipv4,
}

/// Bytes of a header without options.
pub const HEADER_BYTES: u16 = 20;
const _: () = assert!(size_of::<Header>() == HEADER_BYTES as usize);

/// The flow of the packet at `cursor`; `None` when its header is cut.
#[inline(always)]
pub fn flow(cursor: &mut Cursor<'_>) -> Option<Flow<Ipv4>> {
    let start = cursor.offset();
    let header: &Header = cursor.take()?;
    Some(Flow {
        source: header.source,
        destination: header.destination,
        content: Content::Ordinary,
        upper: UpperLayer::new(
            header.protocol,
            header.fragment(),
            start.wrapping_add(header.bytes()),
        ),
    })
}

/// Where the packet at `cursor` comes from, and where it goes to; `None` when its header is cut.
#[inline(always)]
pub fn addresses(mut cursor: Cursor<'_>) -> Option<[Ipv4; 2]> {
    let header: &Header = cursor.take()?;
    Some([header.source, header.destination])
}

/// What the header at `cursor` says of the packet's bytes, its time to live and its type of service; 0 when it is cut.
#[inline(always)]
pub fn numbers(mut cursor: Cursor<'_>) -> Numbers {
    let Some(header) = cursor.take::<Header>() else {
        return Numbers::default();
    };
    let length = u16::from_be_bytes(header.total_length);
    Numbers::new(length, header.time_to_live, header.service)
}

/// Returns the length of the packet at `cursor` from its header, and 0 where that is cut. A length of 0 in the header means a
/// coalesced segment (BIG TCP): the answer is then more than any packet has.
#[inline(always)]
pub fn packet_bytes(mut cursor: Cursor<'_>) -> u32 {
    cursor.take::<Header>().map_or(0, |header| {
        let bytes = u16::from_be_bytes(header.total_length);
        u32::from(bytes.wrapping_sub(1)).wrapping_add(1)
    })
}

impl Header {
    /// The bytes of the header and its options, which it counts in words of 4. Fewer than 5 are an error, at which every
    /// network stack drops the packet.
    #[inline(always)]
    const fn bytes(&self) -> u16 {
        ((self.version_and_length & 0x0f) as u16).wrapping_mul(4)
    }

    #[inline(always)]
    const fn fragment(&self) -> Fragment {
        let bits = u16::from_be_bytes(self.flags_and_offset);
        if bits & FRAGMENT_OFFSET != 0 {
            Fragment::Later
        } else if bits & MORE_FRAGMENTS != 0 {
            let bytes = u16::from_be_bytes(self.total_length);
            Fragment::first(bytes.saturating_sub(self.bytes()))
        } else {
            Fragment::Whole
        }
    }
}
