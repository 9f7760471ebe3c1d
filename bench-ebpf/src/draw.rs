//! Parameters of the drawn sources, shared with user space: `bench` includes this file.

/// Range of the sources that a CPU draws, and their use.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Draw {
    /// The state of the generator.
    pub state: u64,
    /// The first source.
    pub first: u32,
    /// The number of sources, a power of two, less one.
    pub mask: u32,
    /// The interface on which `send` sends.
    pub interface: u32,
    /// The sum of the IPv4 header's 16-bit words with neither checksum nor source, folded to 16
    /// bits.
    pub header_sum: u32,
}
