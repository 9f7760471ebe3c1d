//! A capture of dropped packets: which of them user space wants, and what it gets.
//!
//! Packets that pass are never looked at. A capture ends by itself when nobody goes on asking for it, so a daemon that is
//! killed leaves none behind.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, DropReason, Instant};

/// The most bytes of a packet that are kept.
pub const SNAP_MAX: u32 = 1 << 14;

/// The time in which a CPU copies at most [`Capture::burst`] packets of an interface.
pub const WINDOW_NS: u64 = 100_000_000;

/// What is captured; all zero is nothing.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Capture {
    /// When it ends, in nanoseconds since boot. User space moves it on while somebody reads.
    pub until_ns: u64,
    /// The prefix that sources are to have, in the form of [`Address::octets`], and its bits. No bits are all sources, and the
    /// packets whose source cannot be read.
    pub source: [u8; 16],
    /// The bits of `source` that count.
    pub mask: [u8; 16],
    /// The reasons, a bit each.
    pub reasons: u32,
    /// Of so many packets of an interface that a CPU drops, one is kept.
    pub every: u32,
    /// The bytes of a packet that are kept, at most [`SNAP_MAX`].
    pub snap: u32,
    /// The most packets that a CPU copies of an interface in [`WINDOW_NS`].
    pub burst: u32,
}

impl Capture {
    /// Whether there is one, which may have ended.
    #[inline(always)]
    pub const fn is_wanted(&self) -> bool {
        self.until_ns != 0
    }

    /// Whether it is going on at `now`.
    #[inline(always)]
    pub const fn is_on(&self, now: Instant) -> bool {
        now.as_nanos() < self.until_ns
    }

    /// Whether it has packets that are dropped for `reason`.
    #[inline(always)]
    pub const fn has_reason(&self, reason: DropReason) -> bool {
        self.reasons & 1_u32.wrapping_shl(reason as u32) != 0
    }

    /// Whether it has packets of all sources.
    #[inline(always)]
    pub const fn has_all_sources(&self) -> bool {
        u128::from_ne_bytes(self.mask) == 0
    }

    /// Whether it has packets of `source`.
    #[inline(always)]
    pub fn has_source(&self, source: impl Address) -> bool {
        let different = u128::from_ne_bytes(source.octets()) ^ u128::from_ne_bytes(self.source);
        different & u128::from_ne_bytes(self.mask) == 0
    }
}

/// What one CPU remembers of a capture on one interface. Those that the sample leaves out are what remains of `matched`.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Tally {
    /// Packets that were to be captured, before one of so many was chosen.
    pub matched: u64,
    /// Packets that were sent to user space.
    pub sent: u64,
    /// Chosen packets that were more than a CPU may copy.
    pub over: u64,
    /// Chosen packets that found the ring full.
    pub lost: u64,
    /// When the window opened in which `copied` were copied.
    window_ns: u64,
    copied: u32,
    /// Packets to leave out before the next is chosen.
    skip: u32,
}

impl Tally {
    /// Counts a packet, and answers whether it is to be copied.
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

/// What stands in front of the bytes of a packet.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Head {
    /// When the packet came, in nanoseconds since boot.
    pub at_ns: u64,
    /// The bytes of its frame.
    pub frame_bytes: u32,
    /// Those of them that follow, from the first on.
    pub kept_bytes: u32,
    /// The slot of the interface, see [`layout::INTERFACES_MAX`](crate::layout::INTERFACES_MAX).
    pub interface: u32,
    /// The reason, as the number of [`DropReason`].
    pub reason: u8,
    /// 1 when it passed because of a dry run, else 0.
    pub observed: u8,
    /// What the frame begins with, one of [`link_layer`](crate::layout::link_layer).
    pub link_layer: u8,
    /// Always zero.
    pub reserved: u8,
}
const _: () = assert!(size_of::<Head>() == 24);

/// Room for a packet on its way to user space.
#[repr(C)]
pub struct Room {
    /// What it is.
    pub head: Head,
    /// Its bytes.
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
