//! What an interface has of its own: another default policy, a dry run.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::POLICIES_MAX;

/// What holds for packets that come by one interface, in a word: the index of a policy plus one, and a flag. 0 says nothing.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct InterfaceRule(u32);

const POLICY: u32 = u16::MAX as u32;
const _: () = assert!(POLICIES_MAX < POLICY);
const OBSERVE: u32 = 1 << 31;

impl InterfaceRule {
    /// The policy of sources that no prefix selects, by its index, which is below [`POLICIES_MAX`], where the interface has
    /// its own; and whether it is a dry run.
    pub fn new(policy: Option<u32>, observe: bool) -> Self {
        let number = policy.map_or(0, |index| index.wrapping_add(1) & POLICY);
        Self(number | if observe { OBSERVE } else { 0 })
    }

    /// The index of the policy; `None` where the default of all interfaces holds.
    #[inline(always)]
    pub const fn policy(self) -> Option<u32> {
        match self.0 & POLICY {
            0 => None,
            number => Some(number.wrapping_sub(1)),
        }
    }

    /// Whether what would be dropped passes.
    #[inline(always)]
    pub const fn observe(self) -> bool {
        self.0 & OBSERVE != 0
    }
}
