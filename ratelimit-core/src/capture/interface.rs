//! The interfaces of a capture: their kind of frame, and the format of their times.

use pcap_parser::{InterfaceDescriptionBlock, PcapHeader};

use super::link::Link;

const NANOS: u128 = 1_000_000_000;
/// The bits of a header that are the link type; above are those about frame checksums.
const LINK_TYPE: i32 = 0xffff;
/// The bit of `if_tsresol` for powers of two.
const BASE_2: u8 = 0x80;

/// An interface of a capture; a classic one has one.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    pub link: Link,
    /// The most bytes of a frame that were kept; `u32::MAX` for no end.
    pub snap_bytes: u32,
    /// Units of time in a second.
    per_second: u128,
    offset_seconds: i64,
}

impl Interface {
    pub fn of_pcap(header: &PcapHeader) -> Self {
        Self {
            link: Link::from_number(header.network.0 & LINK_TYPE),
            snap_bytes: u32::MAX,
            per_second: if header.is_nanosecond_precision() {
                1_000_000_000
            } else {
                1_000_000
            },
            offset_seconds: 0,
        }
    }

    /// `None` for a resolution that no time could be written in.
    pub fn of_pcapng(block: &InterfaceDescriptionBlock<'_>, is_big_endian: bool) -> Option<Self> {
        // The parser's own `ts_resolution` knows no powers of two, and its offset is that of
        // little-endian files.
        let (base, exponent) = if block.if_tsresol & BASE_2 == 0 {
            (10_u128, block.if_tsresol)
        } else {
            (2, block.if_tsresol & !BASE_2)
        };
        let offset_seconds = if is_big_endian {
            block.if_tsoffset.swap_bytes()
        } else {
            block.if_tsoffset
        };
        Some(Self {
            link: Link::from_number(block.linktype.0),
            snap_bytes: if block.snaplen == 0 {
                u32::MAX
            } else {
                block.snaplen
            },
            per_second: base.checked_pow(exponent.into())?,
            offset_seconds,
        })
    }

    /// Nanoseconds since the epoch of a time in the interface's units; the nearest there are for
    /// times beyond them.
    pub fn time_ns(&self, units: u64) -> u64 {
        let units = u128::from(units);
        let (seconds, rest) = (units / self.per_second, units % self.per_second);
        // None of these overflows: `units` has 64 bits, a thousand million has 30.
        let nanos = (seconds * NANOS + rest * NANOS / self.per_second).cast_signed();
        let offset = i128::from(self.offset_seconds) * NANOS.cast_signed();
        u64::try_from((nanos + offset).max(0)).unwrap_or(u64::MAX)
    }

    /// Converts a time in seconds and units to nanoseconds.
    pub fn time_of_parts_ns(&self, seconds: u32, units: u32) -> u64 {
        let per_second = u64::try_from(self.per_second).unwrap_or(u64::MAX);
        self.time_ns(u64::from(seconds) * per_second + u64::from(units))
    }
}
