//! Per-CPU state of the program, looked up once for a packet with a quick decision.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    challenge,
    list::lookup_cache::{CachedAddress, ELEMENT_BYTES_MAX, SLOTS},
    refused,
};

/// The state of one CPU.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct CpuState {
    /// The tick of the coarse clock that it has seen last.
    pub tick: Tick,
    /// The state of the challenge.
    pub challenge: challenge::LocalState,
    /// The caches about sources, by family.
    pub sources: [Sources; 2],
}
const _: () = assert!(size_of::<CpuState>() <= ELEMENT_BYTES_MAX);

/// A CPU's caches about the sources of a family.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Sources {
    /// The rules of the lists, by address.
    pub listed: [CachedAddress; SLOTS],
    /// The sources that limits refused.
    pub refused: refused::Filter,
}

/// A timer interrupt of the kernel, and the time at which a CPU noticed it.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Tick {
    /// The number of earlier ticks (`jiffies`).
    pub jiffies: u64,
    /// The time, in nanoseconds since boot.
    pub at_ns: u64,
}
