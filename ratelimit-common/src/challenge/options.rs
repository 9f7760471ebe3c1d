//! The options of a SYN that a listener keeps when it answers with a cookie.
//!
//! The cookie itself has room only for the segment size. The rest returns in the timestamp that the
//! client echoes, whose lowest bits are not those of a clock (`cookie_init_timestamp` in
//! `net/ipv4/syncookies.c`).

#![expect(
    clippy::cast_possible_truncation,
    reason = "fields of words are cut out, and clocks of 32 bits wrap"
)]

use zerocopy::{IntoBytes, Unaligned, transmute};

use super::answer::{Front, checksum};
use crate::{Cursor, Instant, parse::transport::OFFSET_MAX};

/// A kind of option, followed by its length in bytes, including both.
pub type Kind = [u8; 2];

/// The kinds of options (RFC 9293, 3.1; RFC 7323, 2 and 3; RFC 2018, 2).
const END: u8 = 0;
const PADDING: u8 = 1;
const SEGMENT_SIZE: Kind = [2, 4];
const WINDOW_SCALE: Kind = [3, 3];
const SACK: Kind = [4, 2];
const TIMESTAMPS: Kind = [8, 10];

/// The largest scale of a window (RFC 7323, 2.3).
pub const SCALE_MAX: u8 = 14;

/// The most options to read, including padding, and a mask of the offsets where they begin.
const READ_MAX: u32 = 20;
const PLACE_MAX: u16 = 0x3f;
/// The offset of a missing option's value.
const NOWHERE: u16 = 0;

/// The bits of a timestamp that contain options: the scale of the client's window, or that there is
/// none, and whether it supports selective acknowledgements.
const KEPT_BITS: u32 = 6;
const NO_SCALE: u8 = 0xf;
const KEPT_SACK: u8 = 1 << 4;

const NS_PER_TICK: u64 = 1_000_000;

/// The options that a listener supports in a timestamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenerOptions {
    /// The scale of its own window, 0 to 14. `None` if it does not scale.
    pub window_scale: Option<u8>,
    /// Whether it supports selective acknowledgements.
    pub sack: bool,
}

/// The options of a SYN that are kept in a timestamp. All fields always have a value, because the
/// verifier sees how the compiler represents a missing one.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SynOptions {
    /// Whether there is a timestamp. Without it, nothing is kept.
    pub has_timestamp: bool,
    /// The client's timestamp, or 0.
    pub timestamp: u32,
    /// The scale of the client's window, 0 to 14, or 15 for none.
    pub scale: u8,
    /// Whether the client supports selective acknowledgements.
    pub sack: bool,
}

/// A SYN whose answer will have options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// The offset of its options in the frame, in bytes.
    pub from: u16,
    /// The length of its options in bytes, at most 40. The answer has at most as many.
    pub bytes: u16,
    /// The offset of the answer's options, not beyond these.
    pub to: u16,
    /// The segment size in the answer.
    pub segment_bytes: u16,
}

/// Written options.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// The length of all options, in bytes.
    pub bytes: u16,
    /// The sum of their 2-byte words.
    pub sum: u32,
}

/// Selective acknowledgements, or padding, and the timestamps.
#[derive(Clone, Copy, IntoBytes, Unaligned)]
#[repr(C)]
struct SackAndTimestamps {
    sack: [u8; 2],
    kind: [u8; 2],
    shown: [u8; 4],
    echoed: [u8; 4],
}

/// The options of a SYN-ACK, in the order of Linux.
type SegmentSize = [u8; 4];
type Timestamps = [u8; size_of::<SackAndTimestamps>()];
/// Padding, and the scale of the window.
type WindowScale = [u8; 4];

const SEGMENT_SIZE_BYTES: u16 = size_of::<SegmentSize>() as u16;
const TIMESTAMPS_BYTES: u16 = SEGMENT_SIZE_BYTES + size_of::<Timestamps>() as u16;
const WINDOW_SCALE_BYTES: u16 = TIMESTAMPS_BYTES + size_of::<WindowScale>() as u16;

impl ListenerOptions {
    /// Encodes the options as a number other than 0.
    #[inline(always)]
    pub const fn number(self) -> u16 {
        let scale = match self.window_scale {
            Some(scale) => scale,
            None => NO_SCALE,
        };
        1 | (self.sack as u16) << 1 | (scale as u16) << 8
    }

    /// Decodes the options. `None` for 0.
    #[inline(always)]
    pub const fn from_number(number: u16) -> Option<Self> {
        if number == 0 {
            return None;
        }
        let window_scale = match (number >> 8) as u8 {
            NO_SCALE => None,
            scale => Some(scale),
        };
        Some(Self {
            window_scale,
            sack: number & 2 != 0,
        })
    }
}

impl SynOptions {
    /// Reads the options at `start`. [`find`] finds one of them; it is a subprogram in the kernel.
    #[inline(always)]
    pub fn read(start: Cursor<'_>, find: impl Fn(Kind) -> u16) -> Self {
        let mut read = Self {
            has_timestamp: false,
            timestamp: 0,
            scale: NO_SCALE,
            sack: find(SACK) != NOWHERE,
        };
        let (scale, timestamp) = (find(WINDOW_SCALE), find(TIMESTAMPS));
        let at = |place| {
            let mut cursor = start;
            cursor.skip(place & PLACE_MAX);
            cursor
        };
        if scale != NOWHERE
            && let Some([scale]) = at(scale).take::<[u8; 1]>()
        {
            read.scale = (*scale).min(SCALE_MAX);
        }
        if timestamp != NOWHERE
            && let Some(timestamp) = at(timestamp).take::<[u8; 4]>()
        {
            (read.has_timestamp, read.timestamp) = (true, u32::from_be_bytes(*timestamp));
        }
        read
    }

    /// The options that `listener` supports as well.
    #[inline(always)]
    const fn kept_by(self, listener: ListenerOptions) -> Self {
        let scales = listener.window_scale.is_some();
        Self {
            scale: if scales { self.scale } else { NO_SCALE },
            sack: self.sack && listener.sack,
            ..self
        }
    }

    /// The lowest bits of the timestamp, which contain the options.
    #[inline(always)]
    const fn kept_bits(self) -> u8 {
        self.scale | if self.sack { KEPT_SACK } else { 0 }
    }
}

/// Returns the offset of the last option's value of this kind behind `start`, given the length of
/// all options. Ignores options beyond the twentieth, and truncated ones. 0 if there is none.
#[inline(always)]
pub fn find(start: Cursor<'_>, bytes: u16, wanted: Kind) -> u16 {
    let (mut found, mut next) = (NOWHERE, 0);
    for _ in 0..READ_MAX {
        // The verifier sees one offset, however it was reached.
        let at = next & PLACE_MAX;
        if at >= bytes {
            break;
        }
        let mut cursor = start;
        cursor.skip(at);
        let Some([kind]) = cursor.take::<[u8; 1]>().copied() else {
            break;
        };
        if kind == END {
            break;
        }
        if kind == PADDING {
            next = at.wrapping_add(1);
            continue;
        }
        let Some([length]) = cursor.take::<[u8; 1]>().copied() else {
            break;
        };
        next = at.wrapping_add(length.into());
        if length < 2 || next > bytes {
            break;
        }
        if [kind, length] == wanted {
            found = at.wrapping_add(2);
        }
    }
    found
}

/// Writes the options of the answer to a SYN into `front`, which is the same frame as `frame`. A
/// `listener` keeps those it supports of the SYN's options, which a function [finds](find). `None`,
/// without writing anything, if the frame has no room.
#[inline(always)]
pub fn write(
    frame: Cursor<'_>,
    front: &Front<'_>,
    request: Request,
    listener: Option<ListenerOptions>,
    find: impl Fn(Kind) -> u16,
    now: Instant,
) -> Option<Written> {
    if request.bytes < SEGMENT_SIZE_BYTES {
        return Some(Written::default());
    }
    let mut written = Written {
        bytes: SEGMENT_SIZE_BYTES,
        sum: 0,
    };
    // The written options may overlap those of the SYN.
    if let Some(listener) = listener {
        let mut cursor = frame;
        cursor.skip(request.from);
        let kept = SynOptions::read(cursor, find).kept_by(listener);
        let bytes = if kept.scale == NO_SCALE {
            TIMESTAMPS_BYTES
        } else {
            WINDOW_SCALE_BYTES
        };
        if kept.has_timestamp && request.bytes >= bytes {
            // The last one first: without room for it, nothing is written.
            if bytes == WINDOW_SCALE_BYTES {
                let [kind, length] = WINDOW_SCALE;
                let scale = listener.window_scale.unwrap_or_default();
                let option: WindowScale = [PADDING, kind, length, scale];
                written.put(front, request.to.wrapping_add(TIMESTAMPS_BYTES), &option)?;
            }
            let sack = if kept.sack { SACK } else { [PADDING; 2] };
            let shown = timestamp(now, kept.kept_bits()).to_be_bytes();
            let options: Timestamps = transmute!(SackAndTimestamps {
                sack,
                kind: TIMESTAMPS,
                shown,
                echoed: kept.timestamp.to_be_bytes(),
            });
            written.put(front, request.to.wrapping_add(SEGMENT_SIZE_BYTES), &options)?;
            written.bytes = bytes;
        }
    }
    let ([kind, length], [high, low]) = (SEGMENT_SIZE, request.segment_bytes.to_be_bytes());
    let option: SegmentSize = [kind, length, high, low];
    written.put(front, request.to, &option)?;
    Some(written)
}

impl Written {
    #[inline(always)]
    fn put<const N: usize>(&mut self, front: &Front<'_>, at: u16, options: &[u8; N]) -> Option<()> {
        front.put(at & OFFSET_MAX, options)?;
        self.sum = self.sum.wrapping_add(checksum::sum(options));
        Some(())
    }
}

/// The timestamp of a listener, with `kept` in its lowest bits; before `now`.
#[inline(always)]
fn timestamp(now: Instant, kept: u8) -> u32 {
    let ticks = now.as_nanos() / NS_PER_TICK;
    let kept = u64::from(kept);
    let with = ticks >> KEPT_BITS << KEPT_BITS | kept;
    if with > ticks {
        with.wrapping_sub(1 << KEPT_BITS) as u32
    } else {
        with as u32
    }
}
