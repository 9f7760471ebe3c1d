//! A source that is known as verified.

use crate::Instant;

const BY_RESET: u64 = 1 << 1;

/// Until when a source is verified, and by what: a bit is set where the proof was a RST.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified(u64);

impl Verified {
    /// By an acknowledgement that came to this host.
    #[inline(always)]
    pub const fn here(until: Instant) -> Self {
        Self(until.as_nanos() & !BY_RESET)
    }

    /// The same, where all that is known is that something at its address answers what it did not ask for: a RST. A live host sends that to
    /// whoever forges its address, and has not sent a SYN itself.
    #[inline(always)]
    #[must_use]
    pub const fn by_reset(self) -> Self {
        Self(self.0 | BY_RESET)
    }

    /// The one of which this is the word.
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// As it stands in a table.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Until when.
    #[inline(always)]
    pub const fn until(self) -> Instant {
        Instant::from_nanos(self.0 & !BY_RESET)
    }

    /// Whether the proof was a RST alone.
    #[inline(always)]
    pub const fn is_by_reset(self) -> bool {
        self.0 & BY_RESET != 0
    }
}
