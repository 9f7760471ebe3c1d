//! The options of a SYN that a listener keeps when it answers with a cookie.
//!
//! The cookie itself has room for the segment size alone. The rest comes back in the timestamp that the client echoes, whose lowest bits
//! are not those of a clock (`cookie_init_timestamp` of `net/ipv4/syncookies.c`).

#![expect(
    clippy::cast_possible_truncation,
    reason = "fields of words are cut out, and clocks of 32 bits wrap"
)]

use zerocopy::{IntoBytes, Unaligned, transmute};

use super::answer::{Front, checksum};
use crate::{Cursor, Instant, parse::transport::OFFSET_MAX};

/// A kind of options, and its length in bytes with both of these.
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

/// The most options that are read, padding between them included, and a mask of the places where they begin.
const READ_MAX: u32 = 20;
const PLACE_MAX: u16 = 0x3f;
/// The place of the value of an option that is not there.
const NOWHERE: u16 = 0;

/// The bits of a timestamp that are options: the scale of the client's window, or that there is none, and whether it takes selective
/// acknowledgements.
const KEPT_BITS: u32 = 6;
const NO_SCALE: u8 = 0xf;
const KEPT_SACK: u8 = 1 << 4;

const NS_PER_TICK: u64 = 1_000_000;

/// What a listener takes of the options that it keeps in a timestamp.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct ListenerOptions {
    /// The scale of its own window, 0 to 14; `None` where it scales none.
    pub window_scale: Option<u8>,
    /// Whether it takes selective acknowledgements.
    pub sack: bool,
}

/// The options of a SYN that are kept in a timestamp. All of it always has a value: the verifier sees what the compiler makes of one that
/// is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct SynOptions {
    /// Whether there is a timestamp; without it nothing is kept.
    pub has_timestamp: bool,
    /// What the client's clock shows, or 0.
    pub timestamp: u32,
    /// The scale of the client's window, 0 to 14, or 15 for none.
    pub scale: u8,
    /// Whether the client takes selective acknowledgements.
    pub sack: bool,
}

/// A SYN, whose answer is to have options.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Request {
    /// Where its own options are, in bytes from the front of the frame.
    pub from: u16,
    /// How many bytes they have, at most 40. The answer has no more.
    pub bytes: u16,
    /// Where those of the answer are to be: not behind these.
    pub to: u16,
    /// The segment size that the answer tells.
    pub segment_bytes: u16,
}

/// Options that were written.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Written {
    /// How many bytes.
    pub bytes: u16,
    /// The sum of their words of 2 bytes.
    pub sum: u32,
}

/// That selective acknowledgements are taken, or padding, and the timestamps.
#[derive(Clone, Copy, IntoBytes, Unaligned)]
#[repr(C)]
struct SackAndTimestamps {
    sack: [u8; 2],
    kind: [u8; 2],
    shown: [u8; 4],
    echoed: [u8; 4],
}

/// The options of a SYN-ACK, in the order in which Linux writes them.
type SegmentSize = [u8; 4];
type Timestamps = [u8; size_of::<SackAndTimestamps>()];
/// Padding, and the scale of the window.
type WindowScale = [u8; 4];

const SEGMENT_SIZE_BYTES: u16 = size_of::<SegmentSize>() as u16;
const TIMESTAMPS_BYTES: u16 = SEGMENT_SIZE_BYTES + size_of::<Timestamps>() as u16;
const WINDOW_SCALE_BYTES: u16 = TIMESTAMPS_BYTES + size_of::<WindowScale>() as u16;

impl ListenerOptions {
    /// A number that is not 0.
    #[inline(always)]
    pub const fn number(self) -> u16 {
        let scale = match self.window_scale {
            Some(scale) => scale,
            None => NO_SCALE,
        };
        1 | (self.sack as u16) << 1 | (scale as u16) << 8
    }

    /// The ones with this number; `None` of 0.
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
    /// Those at `start`. [`find`] answers where one is: a function, which the kernel has as a subprogram.
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

    /// Those of them that `listener` takes too.
    #[inline(always)]
    const fn kept_by(self, listener: ListenerOptions) -> Self {
        let scales = listener.window_scale.is_some();
        Self {
            scale: if scales { self.scale } else { NO_SCALE },
            sack: self.sack && listener.sack,
            ..self
        }
    }

    /// The lowest bits of the timestamp in which they are kept.
    #[inline(always)]
    const fn kept_bits(self) -> u8 {
        self.scale | if self.sack { KEPT_SACK } else { 0 }
    }
}

/// Where the value of the last option of this kind is, behind `start`, where options have so many bytes. What comes behind twenty, or is
/// cut, is not looked at. 0 where there is none.
#[inline(always)]
pub fn find(start: Cursor<'_>, bytes: u16, wanted: Kind) -> u16 {
    let (mut found, mut next) = (NOWHERE, 0);
    for _ in 0..READ_MAX {
        // The verifier sees one place, however it was reached.
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

/// Writes the options of the answer to a SYN into `front`, which is the frame that `frame` is at the front of. A `listener` keeps what it
/// takes of those that the SYN has, which are [found](find) by a function. `None`, and nothing is written, where the frame has no room.
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
    // What is written may be where the SYN has its own.
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
            // The last first: without room for it, nothing is written.
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

/// What the clock of a listener shows, with `kept` in its lowest bits; before `now`.
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
