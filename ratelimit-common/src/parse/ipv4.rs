//! The IPv4 header (RFC 791). Options and fragments do not affect the position of the source
//! address.

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

/// The flow of the packet at `cursor`. `None` if its header is truncated.
#[inline(always)]
pub fn flow(cursor: &mut Cursor<'_>) -> Option<Flow<Ipv4>> {
    let start = cursor.offset();
    let header: &Header = cursor.take()?;
    Some(Flow {
        source: header.source,
        destination: header.destination,
        dscp: header.service >> 2,
        content: Content::Ordinary,
        upper: UpperLayer::new(
            header.protocol,
            header.fragment(),
            start.wrapping_add(header.bytes()),
        ),
    })
}

/// The source and destination of the packet at `cursor`. `None` if its header is truncated.
#[inline(always)]
pub fn addresses(mut cursor: Cursor<'_>) -> Option<[Ipv4; 2]> {
    let header: &Header = cursor.take()?;
    Some([header.source, header.destination])
}

/// The length, the time to live and the type of service in the header at `cursor`; 0 if it is
/// truncated.
#[inline(always)]
pub fn numbers(mut cursor: Cursor<'_>) -> Numbers {
    let Some(header) = cursor.take::<Header>() else {
        return Numbers::default();
    };
    let length = u16::from_be_bytes(header.total_length);
    Numbers::new(length, header.time_to_live, header.service)
}

/// The length of the packet at `cursor` from its header, and 0 if that is truncated. A length of 0
/// in the header means a coalesced segment (BIG TCP): the result is then more than any packet has.
#[inline(always)]
pub fn packet_bytes(mut cursor: Cursor<'_>) -> u32 {
    cursor.take::<Header>().map_or(0, |header| {
        let bytes = u16::from_be_bytes(header.total_length);
        u32::from(bytes.wrapping_sub(1)).wrapping_add(1)
    })
}

impl Header {
    /// The length of the header with its options, in words of 4 bytes in the header. Every network
    /// stack drops a packet with fewer than 5.
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
