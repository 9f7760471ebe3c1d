//! What the lists say about an address at one time.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{ALLOWED, BANNED, DESTINATION_SHIFT, END_SHIFT, FOUND, HAS_POLICY, POLICY, PROTECTED};

/// All of it in one word, which is 0 where there is no entry.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct Listed(u64);

impl Listed {
    /// There is no entry.
    pub const NONE: Self = Self(0);

    /// That of [`Self::to_bits`].
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

    /// Whether it is banned.
    #[inline(always)]
    pub const fn is_banned(self) -> bool {
        self.0 & BANNED != 0
    }

    /// Whether detection never bans it.
    #[inline(always)]
    pub const fn is_protected(self) -> bool {
        self.0 & PROTECTED != 0
    }

    /// The index of its policy; `None` stands for the default policy.
    #[inline(always)]
    pub const fn policy(self) -> Option<u32> {
        if self.0 & HAS_POLICY == 0 {
            None
        } else {
            Some((self.0 & POLICY) as u32)
        }
    }

    /// The index of the policy of packets that go to the address; `None` where they have none.
    #[inline(always)]
    pub const fn destination(self) -> Option<u32> {
        match (self.0 >> DESTINATION_SHIFT & 0xffff) as u32 {
            0 => None,
            number => Some(number.wrapping_sub(1)),
        }
    }

    /// The slot in which packets are counted that it decides about; 0 for none.
    #[inline(always)]
    pub const fn slot(self) -> u16 {
        (self.0 >> END_SHIFT & 0xffff) as u16
    }
}
