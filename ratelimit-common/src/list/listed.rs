//! The lists' rules for an address at one time.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{
    ALLOWED, BANNED, DESTINATION_SHIFT, DROPS, DRY_RUN, END_SHIFT, FOUND, HAS_POLICY, POLICY,
    PROTECTED,
};

/// All rules in one word, which is 0 without an entry.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct Listed(u64);

impl Listed {
    /// There is no entry.
    pub const NONE: Self = Self(0);

    /// Decodes [`Self::to_bits`].
    #[inline(always)]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The word.
    #[inline(always)]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Whether there is an entry.
    #[inline(always)]
    pub const fn is_found(self) -> bool {
        self.0 & FOUND != 0
    }

    /// Whether the address is on the allow list.
    #[inline(always)]
    pub const fn is_allowed(self) -> bool {
        self.0 & ALLOWED != 0
    }

    /// Whether it is banned, and not allowed.
    #[inline(always)]
    pub const fn is_banned(self) -> bool {
        self.0 & BANNED != 0
    }

    /// Whether the packets are dropped by a ban or by the policy.
    #[inline(always)]
    pub const fn is_refused(self) -> bool {
        self.0 & (BANNED | DROPS) != 0
    }

    /// Whether the drop by the policy is a dry run.
    #[inline(always)]
    pub const fn is_dry_run(self) -> bool {
        self.0 & (BANNED | DROPS | DRY_RUN) == DROPS | DRY_RUN
    }

    /// Whether policies never ban it.
    #[inline(always)]
    pub const fn is_protected(self) -> bool {
        self.0 & PROTECTED != 0
    }

    /// The policy index; `None` for the default policy.
    #[inline(always)]
    pub const fn policy(self) -> Option<u32> {
        if self.0 & HAS_POLICY == 0 {
            None
        } else {
            Some((self.0 & POLICY) as u32)
        }
    }

    /// The policy index of packets to the address, if there is one.
    #[inline(always)]
    pub const fn destination(self) -> Option<u32> {
        match (self.0 >> DESTINATION_SHIFT & 0xffff) as u32 {
            0 => None,
            number => Some(number.wrapping_sub(1)),
        }
    }

    /// The slot that counts packets decided by these rules; 0 for none.
    #[inline(always)]
    pub const fn slot(self) -> u16 {
        (self.0 >> END_SHIFT & 0xffff) as u16
    }
}
