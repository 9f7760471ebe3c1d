//! A sample of the drops, for people to look at. Counters are the truth; there is never an event a packet.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The shortest time between two events of one CPU: at most 100 a second.
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
    /// The index of the limit that refused; 0 where none did.
    pub limit: u8,
    /// Always zero.
    pub reserved: u8,
}
const _: () = assert!(size_of::<DropEvent>() == 32);

/// What one CPU remembers of its events.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Sampler {
    /// The time before which no event is sent, in nanoseconds since boot.
    pub next_ns: u64,
    /// Events that were sent.
    pub sent: u64,
    /// Events that found the ring full.
    pub lost: u64,
}
