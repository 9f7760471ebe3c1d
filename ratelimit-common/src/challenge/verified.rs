//! A verified source.

use crate::Instant;

const BY_RESET: u64 = 1 << 1;

/// The expiry of a source's verification, and its proof: a bit is set if that was a RST.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified(u64);

impl Verified {
    /// Verified by an acknowledgement on this host.
    #[inline(always)]
    pub const fn here(until: Instant) -> Self {
        Self(until.as_nanos() & !BY_RESET)
    }

    /// Verified only by a RST: something at the address answers unexpected packets. A live host
    /// sends one to a forger's target, without having sent a SYN.
    #[inline(always)]
    #[must_use]
    pub const fn by_reset(self) -> Self {
        Self(self.0 | BY_RESET)
    }

    /// Decodes a word.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Encodes a word for a table.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The expiry.
    #[inline(always)]
    pub const fn until(self) -> Instant {
        Instant::from_nanos(self.0 & !BY_RESET)
    }

    /// Whether the only proof was a RST.
    #[inline(always)]
    pub const fn is_by_reset(self) -> bool {
        self.0 & BY_RESET != 0
    }
}
