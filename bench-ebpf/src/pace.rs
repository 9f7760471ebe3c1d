//! The pace of a flood, shared with user space: `bench` includes this file.

/// When the next packets of a flood are due. Until then the program that sends drops what it is
/// given, so that the kernel runs it in a circle.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Pace {
    /// Nanoseconds from a burst to the next one.
    pub gap: u64,
    /// The packets of a burst.
    pub burst: u64,
    /// When the next burst is due, in nanoseconds of the monotonic clock.
    pub due: u64,
    /// The packets of this burst that are still to be sent.
    pub left: u64,
    /// The packets sent.
    pub sent: u64,
}
