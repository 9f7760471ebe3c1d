//! What can change while packets flow, for all of them at once.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// One word, so that a change of several settings is seen whole or not at all.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C, align(8))]
pub struct Settings {
    default_policy: u32,
    flags: u32,
}
const _: () = assert!(size_of::<Settings>() == 8);

const OBSERVE: u32 = 1 << 0;

impl Settings {
    /// The settings that the daemon writes: the index of the default policy, and whether everything is a dry run.
    #[must_use]
    pub const fn new(default_policy: u32, observe: bool) -> Self {
        Self {
            default_policy,
            flags: if observe { OBSERVE } else { 0 },
        }
    }

    /// The index of the policy for sources that no list entry gives another one.
    #[must_use]
    #[inline(always)]
    pub const fn default_policy(self) -> u32 {
        self.default_policy
    }

    /// Whether packets that would be dropped are counted and passed.
    #[must_use]
    #[inline(always)]
    pub const fn observe(self) -> bool {
        self.flags & OBSERVE != 0
    }
}
