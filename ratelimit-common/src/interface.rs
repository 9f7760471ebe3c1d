//! The rules of a single interface: its own default policy, its own node limits, a dry run.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::layout::POLICIES_MAX;

/// The rules for packets that arrive on an interface, in one word: the indices of two policies plus
/// one, and a flag. 0 is an interface without rules of its own.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct InterfaceRule(u32);

const POLICY: u32 = u16::MAX as u32;
const NODE_SHIFT: u32 = 16;
const NODE: u32 = (1 << 15) - 1;
const _: () = assert!(POLICIES_MAX < POLICY && POLICIES_MAX <= NODE);
const OBSERVE: u32 = 1 << 31;

impl InterfaceRule {
    /// Creates the rule of an interface with its own default policy, its own node policy, or both.
    /// Indices are below [`POLICIES_MAX`]. With `observe`, nothing is dropped on the interface.
    pub fn new(policy: Option<u32>, node: Option<u32>, observe: bool) -> Self {
        let number = |index: Option<u32>| index.map_or(0, |index| index.wrapping_add(1));
        let node = (number(node) & NODE).wrapping_shl(NODE_SHIFT);
        Self(number(policy) & POLICY | node | if observe { OBSERVE } else { 0 })
    }

    /// The index of its default policy; `None` if the common one applies.
    #[inline(always)]
    pub const fn policy(self) -> Option<u32> {
        match self.0 & POLICY {
            0 => None,
            number => Some(number.wrapping_sub(1)),
        }
    }

    /// The index of its node policy; `None` if the common one applies.
    #[inline(always)]
    pub const fn node(self) -> Option<u32> {
        match self.0.wrapping_shr(NODE_SHIFT) & NODE {
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
