//! Events of the program: a sample of the drops for display, and each ban by a policy.
//!
//! Counters and maps are authoritative. Not every packet causes an event, and events may be lost.
//! The two kinds are distinguished by their length.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    PolicyBan,
    sample::{FRONT_BYTES, front},
};

/// The shortest time between two events of an interface: about 100 a second.
pub const INTERVAL_NS: u64 = 10_000_000;

/// A packet that was dropped, or would have been in a dry run.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct DropEvent {
    /// When, in nanoseconds since boot.
    pub at_ns: u64,
    /// The source, in the form of [`Address::octets`](crate::Address::octets).
    pub source: [u8; 16],
    /// The slot of the interface, see [`layout::INTERFACES_MAX`](crate::layout::INTERFACES_MAX).
    pub interface: u32,
    /// The family, as the number of [`Family`](crate::Family).
    pub family: u8,
    /// The reason, as the number of [`DropReason`](crate::DropReason).
    pub reason: u8,
    /// The index of the limit that refused; 0 if none did.
    pub limit: u8,
    /// Always zero.
    pub reserved: u8,
    /// The bytes of its frame, and of the packet inside where that is judged; 0 where they could
    /// not be read.
    pub frame_bytes: u32,
    /// The first header of the frame, one of [`link_layer`](crate::layout::link_layer).
    pub link_layer: u32,
    /// The first bytes of the frame. Beyond the end of a short frame, they are undefined.
    pub front: [u8; FRONT_BYTES as usize],
}
const _: () = assert!(size_of::<DropEvent>() == 168);

impl DropEvent {
    /// The bytes of the frame that are there.
    pub fn frame(&self) -> &[u8] {
        front(&self.front, self.frame_bytes)
    }
}

/// A source that a policy banned.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct BanEvent {
    /// The ban.
    pub ban: PolicyBan,
    /// The source, in the form of [`Address::octets`](crate::Address::octets).
    pub source: [u8; 16],
    /// The slot of the interface, see [`layout::INTERFACES_MAX`](crate::layout::INTERFACES_MAX).
    pub interface: u32,
    /// The family, as the number of [`Family`](crate::Family).
    pub family: u8,
    /// Always zero.
    pub reserved: [u8; 3],
}
const _: () = assert!(size_of::<BanEvent>() != size_of::<DropEvent>());

/// The event counters of one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Sampler {
    /// Events that were sent.
    pub sent: u64,
    /// Events that found the ring full.
    pub lost: u64,
}
