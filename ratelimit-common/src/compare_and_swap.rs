//! Words that several CPUs change at once.

/// How often a compare-and-swap is tried before the packet is refused. Ignoring the failure would
/// admit 1.94 times the limit on two CPUs.
pub const ATTEMPTS: usize = 4;
