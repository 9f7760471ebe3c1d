//! A capture of dropped packets: the filter that user space sets, and the records it receives.
//!
//! Passed packets are never examined. A capture expires unless user space keeps extending it, so a
//! killed daemon leaves none behind.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, DropReason, Instant};

/// The most bytes of a packet that are kept.
pub const SNAP_MAX: u32 = 1 << 14;

/// The time in which a CPU copies at most [`Capture::burst`] packets of an interface.
pub const WINDOW_NS: u64 = 100_000_000;

/// The packets to capture; all zero for none.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Capture {
    /// The end, in nanoseconds since boot. User space extends it while there is a reader.
    pub until_ns: u64,
    /// The prefix of the captured sources, in the form of [`Address::octets`]. With a mask of 0,
    /// all sources match, and packets whose source cannot be read.
    pub source: [u8; 16],
    /// The bits of `source` that count.
    pub mask: [u8; 16],
    /// The reasons, one bit each.
    pub reasons: u32,
    /// The sampling interval: a CPU keeps one in this many packets that it drops on an interface.
    pub every: u32,
    /// The bytes of a packet that are kept, at most [`SNAP_MAX`].
    pub snap: u32,
    /// The most packets that a CPU copies of an interface in [`WINDOW_NS`].
    pub burst: u32,
}

impl Capture {
    /// Whether there is one, possibly expired.
    #[inline(always)]
    pub const fn is_wanted(&self) -> bool {
        self.until_ns != 0
    }

    /// Whether it is active at `now`.
    #[inline(always)]
    pub const fn is_on(&self, now: Instant) -> bool {
        now.as_nanos() < self.until_ns
    }

    /// Whether it includes packets dropped for `reason`.
    #[inline(always)]
    pub const fn has_reason(&self, reason: DropReason) -> bool {
        self.reasons & 1_u32.wrapping_shl(reason as u32) != 0
    }

    /// Whether it includes all sources.
    #[inline(always)]
    pub const fn has_all_sources(&self) -> bool {
        u128::from_ne_bytes(self.mask) == 0
    }

    /// Whether it includes packets of `source`.
    #[inline(always)]
    pub fn has_source(&self, source: impl Address) -> bool {
        let different = u128::from_ne_bytes(source.octets()) ^ u128::from_ne_bytes(self.source);
        different & u128::from_ne_bytes(self.mask) == 0
    }
}

/// The state of a capture on one CPU and interface. Packets skipped by sampling are `matched` minus
/// all others.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Tally {
    /// Packets that matched, before sampling.
    pub matched: u64,
    /// Packets that were sent to user space.
    pub sent: u64,
    /// Sampled packets beyond the limit of a CPU.
    pub over: u64,
    /// Sampled packets lost because the ring was full.
    pub lost: u64,
    /// The start of the window in which `copied` packets were copied.
    window_ns: u64,
    copied: u32,
    /// Packets to skip before the next one is kept.
    skip: u32,
}

impl Tally {
    /// Counts a packet, and returns whether to copy it.
    #[inline(always)]
    pub fn choose(&mut self, capture: &Capture, now: Instant) -> bool {
        self.matched = self.matched.wrapping_add(1);
        if self.skip > 0 {
            self.skip = self.skip.wrapping_sub(1);
            return false;
        }
        self.skip = capture.every.saturating_sub(1);
        if now.as_nanos().wrapping_sub(self.window_ns) >= WINDOW_NS {
            self.window_ns = now.as_nanos();
            self.copied = 0;
        }
        if self.copied >= capture.burst {
            self.over = self.over.wrapping_add(1);
            return false;
        }
        self.copied = self.copied.wrapping_add(1);
        true
    }
}

/// The header before the bytes of a packet.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Head {
    /// The arrival time of the packet, in nanoseconds since boot.
    pub at_ns: u64,
    /// The bytes of its frame.
    pub frame_bytes: u32,
    /// The number of bytes that follow, from the beginning of the frame.
    pub kept_bytes: u32,
    /// The slot of the interface, see [`layout::INTERFACES_MAX`](crate::layout::INTERFACES_MAX).
    pub interface: u32,
    /// The reason, as the number of [`DropReason`].
    pub reason: u8,
    /// 1 if it passed because of a dry run, otherwise 0.
    pub observed: u8,
    /// The first header of the frame, one of [`link_layer`](crate::layout::link_layer).
    pub link_layer: u8,
    /// Always zero.
    pub reserved: u8,
}
const _: () = assert!(size_of::<Head>() == 24);

/// Space for a packet on its way to user space.
#[repr(C)]
pub struct Room {
    /// The header.
    pub head: Head,
    /// The bytes.
    pub bytes: [u8; SNAP_MAX as usize],
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6};

    const START: u64 = 1 << 40;

    #[test]
    fn one_of_so_many_is_chosen_beginning_with_the_first() {
        let capture = Capture {
            every: 3,
            burst: 100,
            ..Capture::default()
        };
        let mut tally = Tally::default();
        let chosen = core::array::from_fn(|_| tally.choose(&capture, at(0)));
        assert_eq!(chosen, [true, false, false, true, false, false, true]);
        assert_eq!(tally.matched, 7);
    }

    #[test]
    fn a_cpu_copies_no_more_than_its_burst_in_a_window() {
        let capture = Capture {
            every: 1,
            burst: 2,
            ..Capture::default()
        };
        let mut tally = Tally::default();
        let times = [
            0,
            1,
            2,
            WINDOW_NS - 1,
            WINDOW_NS,
            WINDOW_NS + 1,
            WINDOW_NS + 2,
        ];
        let chosen = times.map(|time| tally.choose(&capture, at(time)));
        assert_eq!(chosen, [true, true, false, false, true, true, false]);
        assert_eq!((tally.matched, tally.over), (7, 3));
    }

    #[test]
    fn a_prefix_has_its_sources_and_no_others() {
        let capture = Capture {
            source: Ipv4::new([203, 0, 113, 0]).octets(),
            mask: (u128::MAX << 8).to_be_bytes(),
            ..Capture::default()
        };
        assert!(!capture.has_all_sources());
        assert!(capture.has_source(Ipv4::new([203, 0, 113, 77])));
        assert!(!capture.has_source(Ipv4::new([203, 0, 114, 77])));
        assert!(!capture.has_source(Ipv6::new([0x20; 16])));
        assert!(Capture::default().has_all_sources());
    }

    #[test]
    fn nothing_is_captured_after_the_end_or_for_another_reason() {
        let capture = Capture {
            until_ns: START + 5,
            reasons: 1 << DropReason::Limited as u32,
            ..Capture::default()
        };
        assert!(capture.is_on(at(4)) && !capture.is_on(at(5)));
        assert!(!Capture::default().is_on(Instant::from_nanos(0)));
        assert!(capture.has_reason(DropReason::Limited));
        assert!(!capture.has_reason(DropReason::Banned));
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(START + nanos)
    }
}
