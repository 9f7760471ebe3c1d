//! What the lists say about an address at one time.

use super::{ALLOWED, BANNED, FOUND, HAS_POLICY, POLICY, PROTECTED};

/// All of it in one word, which is 0 where there is no entry.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Listed(u64);

impl Listed {
    /// That of [`Self::to_bits`].
    #[must_use]
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The word.
    #[must_use]
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether there is an entry.
    #[must_use]
    #[inline(always)]
    pub const fn is_found(self) -> bool {
        self.0 & FOUND != 0
    }

    /// Whether the address is on the allow list.
    #[must_use]
    #[inline(always)]
    pub const fn is_allowed(self) -> bool {
        self.0 & ALLOWED != 0
    }

    /// Whether it is banned.
    #[must_use]
    #[inline(always)]
    pub const fn is_banned(self) -> bool {
        self.0 & BANNED != 0
    }

    /// Whether detection never bans it.
    #[must_use]
    #[inline(always)]
    pub const fn is_protected(self) -> bool {
        self.0 & PROTECTED != 0
    }

    /// The index of its policy; `None` stands for the default policy.
    #[must_use]
    #[inline(always)]
    pub const fn policy(self) -> Option<u32> {
        if self.0 & HAS_POLICY == 0 {
            None
        } else {
            Some((self.0 & POLICY) as u32)
        }
    }
}
