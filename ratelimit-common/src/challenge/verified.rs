//! A source that is known as verified.

use crate::Instant;

/// Until when a source is verified, and whether it proved itself on this host: the lowest bit is set where another host told of it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Verified(u64);

impl Verified {
    /// By a proof that came to this host.
    #[inline(always)]
    pub const fn here(until: Instant) -> Self {
        Self(until.as_nanos() & !1)
    }

    /// On the word of another host.
    pub const fn by_peer(until: Instant) -> Self {
        Self(until.as_nanos() | 1)
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
        Instant::from_nanos(self.0)
    }

    /// Whether another host told of it.
    pub const fn is_by_peer(self) -> bool {
        self.0 & 1 != 0
    }
}
