//! What the lists say about an address.
//!
//! Allows, bans and policy prefixes are compiled by the daemon into one entry for each prefix, which also carries what the
//! wider prefixes around it say. So one lookup, of the longest match, is the whole answer.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::Instant;

/// What applies to the addresses of one prefix.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct ListEntry {
    /// Low and high half of nanoseconds since boot: the values of an LPM trie with 4-byte keys are aligned to 4 bytes.
    banned_until_ns: [u32; 2],
    policy: u32,
    flags: u32,
}
const _: () = assert!(size_of::<ListEntry>() == 16);

const ALLOWED: u32 = 1 << 0;
const HAS_POLICY: u32 = 1 << 1;
const PROTECTED: u32 = 1 << 2;

impl ListEntry {
    /// The entry that the daemon writes: allowed or not, banned until an end if at all, with a policy of its own or without.
    #[must_use]
    pub fn new(allowed: bool, banned_until: Option<Instant>, policy: Option<u32>) -> Self {
        let mut flags = 0;
        if allowed {
            flags |= ALLOWED;
        }
        if policy.is_some() {
            flags |= HAS_POLICY;
        }
        Self {
            banned_until_ns: halves(banned_until.map_or(0, Instant::as_nanos)),
            policy: policy.unwrap_or_default(),
            flags,
        }
    }

    /// The same for addresses that detection never bans.
    #[must_use]
    pub const fn protected(self) -> Self {
        Self {
            flags: self.flags | PROTECTED,
            ..self
        }
    }

    /// Whether detection never bans the addresses. What they send is limited as ever.
    #[must_use]
    #[inline(always)]
    pub const fn is_protected(&self) -> bool {
        self.flags & PROTECTED != 0
    }

    /// Whether the addresses are on the allow list.
    #[must_use]
    #[inline(always)]
    pub const fn is_allowed(&self) -> bool {
        self.flags & ALLOWED != 0
    }

    /// Whether the addresses are banned at `now`. The end itself is outside the ban.
    #[must_use]
    #[inline(always)]
    pub fn is_banned(&self, now: Instant) -> bool {
        now.as_nanos() < self.banned_until_ns()
    }

    /// When the ban ends; `None` where there is none.
    #[must_use]
    pub fn banned_until(&self) -> Option<Instant> {
        let until_ns = self.banned_until_ns();
        (until_ns != 0).then_some(Instant::from_nanos(until_ns))
    }

    /// The index of the policy of these addresses; `None` stands for the default policy.
    #[must_use]
    #[inline(always)]
    pub const fn policy(&self) -> Option<u32> {
        if self.flags & HAS_POLICY == 0 {
            None
        } else {
            Some(self.policy)
        }
    }

    #[inline(always)]
    const fn banned_until_ns(&self) -> u64 {
        let [low, high] = self.banned_until_ns;
        (high as u64).wrapping_shl(u32::BITS) | low as u64
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "each half is cut off on purpose"
)]
const fn halves(word: u64) -> [u32; 2] {
    [word as u32, word.wrapping_shr(u32::BITS) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ban_ends_at_its_end() {
        for until in [1, u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, u64::MAX] {
            let entry = ListEntry::new(false, Some(Instant::from_nanos(until)), None);
            assert_eq!(entry.banned_until(), Some(Instant::from_nanos(until)));
            assert!(entry.is_banned(Instant::from_nanos(until - 1)));
            assert!(!entry.is_banned(Instant::from_nanos(until)));
        }
    }

    #[test]
    fn an_entry_without_a_word_says_nothing() {
        let entry = ListEntry::default();
        assert!(!entry.is_allowed() && !entry.is_banned(Instant::default()));
        assert_eq!((entry.banned_until(), entry.policy()), (None, None));
    }
}
