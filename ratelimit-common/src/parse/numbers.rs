//! Numbers in a network header that only classes use.

/// Numbers of a network header, in one word: in several, LLVM keeps one of them where a pointer
/// was, which the verifier does not follow.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Numbers(u32);

impl Numbers {
    /// Bytes of the IP packet, time to live or hop limit, type of service or traffic class.
    #[inline(always)]
    pub const fn new(length: u16, hops: u8, service: u8) -> Self {
        Self((length as u32) << 16 | (hops as u32) << 8 | service as u32)
    }

    /// Bytes of the IP packet, as its header says.
    #[inline(always)]
    pub const fn length(self) -> u32 {
        self.0 >> 16
    }

    /// The time to live or hop limit in the upper byte, the type of service or traffic class in the
    /// lower one.
    #[inline(always)]
    pub const fn hops_and_service(self) -> u32 {
        self.0 & 0xffff
    }
}
