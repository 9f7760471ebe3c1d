//! The slots that count packets decided by a list entry.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const SLOT: u64 = 0xffff;

/// The position of the policy index of a destination, plus one. It is no slot, but an entry has no
/// other place for it.
const DESTINATION_SHIFT: u32 = 48;

/// The slots of the allow, the ban and the policy of an entry, 0 for none.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct Slots(u64);

impl Slots {
    /// Creates these slots.
    pub const fn new(allow: u16, ban: u16, policy: u16) -> Self {
        Self(policy as u64 | (ban as u64) << 16 | (allow as u64) << 32)
    }

    /// Adds the policy of a destination.
    pub(super) fn with_destination(self, policy: Option<u32>) -> Self {
        let number = policy.map_or(0, |index| u64::from(index).wrapping_add(1) & SLOT);
        Self(self.without_destination().0 | number << DESTINATION_SHIFT)
    }

    /// Removes the policy of a destination.
    pub(super) const fn without_destination(self) -> Self {
        Self(self.0 & !(SLOT << DESTINATION_SHIFT))
    }

    /// The index of the policy of a destination, plus one; 0 for none.
    #[inline(always)]
    pub(super) const fn destination(self) -> u16 {
        (self.0 >> DESTINATION_SHIFT) as u16
    }

    /// The slot of the allow.
    #[inline(always)]
    pub const fn allow(self) -> u16 {
        (self.0 >> 32 & SLOT) as u16
    }

    /// The slot of the ban.
    #[inline(always)]
    pub const fn ban(self) -> u16 {
        (self.0 >> 16 & SLOT) as u16
    }

    /// The slot of the policy.
    #[inline(always)]
    pub const fn policy(self) -> u16 {
        (self.0 & SLOT) as u16
    }
}
