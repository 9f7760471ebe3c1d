//! Per-CPU state of the program, looked up once for a packet with a quick decision.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::challenge;

/// The state of one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct OfCpu {
    /// The tick of the coarse clock that it has seen last.
    pub tick: Tick,
    /// The state of the challenge.
    pub challenge: challenge::OfCpu,
}

/// A timer interrupt of the kernel, and the time at which a CPU noticed it.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Tick {
    /// How many there were before (`jiffies`).
    pub jiffies: u64,
    /// In nanoseconds since boot.
    pub at_ns: u64,
}
