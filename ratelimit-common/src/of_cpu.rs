//! What the program keeps for each CPU, and looks up once for a packet that is not judged at length.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::challenge;

/// What the program keeps for one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct OfCpu {
    /// The tick of the coarse clock that it has seen last.
    pub tick: Tick,
    /// What it keeps of the challenge.
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
