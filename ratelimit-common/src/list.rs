//! What the lists say about an address.
//!
//! Allows, bans and policy prefixes are compiled by the daemon into one entry for each prefix, which also carries what the
//! wider prefixes around it say. So one lookup, of the longest match, is the whole answer.

pub mod remembered;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Address, Instant};

/// The key of a list entry: a prefix.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
#[repr(C)]
pub struct PrefixKey<A: Address> {
    length: u32,
    address: A,
}

impl<A: Address> PrefixKey<A> {
    /// The key of the prefix of `length` whose first address is `address`.
    #[inline(always)]
    pub const fn new(address: A, length: u8) -> Self {
        Self {
            length: length as u32,
            address,
        }
    }

    /// The first address.
    pub const fn address(&self) -> A {
        self.address
    }

    /// The length; `None` for what is no key of ours.
    pub fn length(&self) -> Option<u8> {
        u8::try_from(self.length).ok()
    }
}

/// What applies to the addresses of one prefix.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct ListEntry {
    /// Nanoseconds since boot; 0 without a ban.
    banned_until_ns: u64,
    policy: u32,
    flags: u32,
}
const _: () = assert!(size_of::<ListEntry>() == 16);

const ALLOWED: u32 = 1 << 0;
const HAS_POLICY: u32 = 1 << 1;
const PROTECTED: u32 = 1 << 2;

/// Of an entry in one word: that there is one, and that its ban is active.
const FOUND: u32 = 1 << 31;
const BANNED: u32 = 1 << 30;

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
            banned_until_ns: banned_until.map_or(0, Instant::as_nanos),
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
        now.as_nanos() < self.banned_until_ns
    }

    /// When the ban ends; `None` where there is none.
    #[must_use]
    pub fn banned_until(&self) -> Option<Instant> {
        (self.banned_until_ns != 0).then_some(Instant::from_nanos(self.banned_until_ns))
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

    /// The entry as it is at `now`, in one word that is not 0: the end of its ban is not in it.
    #[must_use]
    #[inline(always)]
    pub fn to_bits(self, now: Instant) -> u64 {
        Answer::of(self).to_bits(now)
    }

    /// The entry of [`Self::to_bits`], banned for ever or not at all; `None` for 0.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the halves of a word")]
    pub const fn from_bits(bits: u64) -> Option<Self> {
        let flags = (bits >> 32) as u32;
        if flags & FOUND == 0 {
            return None;
        }
        Some(Self {
            banned_until_ns: if flags & BANNED == 0 { 0 } else { u64::MAX },
            policy: bits as u32,
            flags: flags & !(FOUND | BANNED),
        })
    }
}

/// What the lists say, an entry or none, for all times.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Answer {
    /// Nanoseconds since boot; 0 without a ban.
    banned_until_ns: u64,
    /// The entry without its ban, or 0.
    bits: u64,
}

impl Answer {
    /// That there is no entry.
    pub const NONE: Self = Self {
        banned_until_ns: 0,
        bits: 0,
    };

    /// That there is this one.
    #[must_use]
    #[inline(always)]
    pub const fn of(entry: ListEntry) -> Self {
        Self {
            banned_until_ns: entry.banned_until_ns,
            bits: ((entry.flags | FOUND) as u64) << 32 | entry.policy as u64,
        }
    }

    /// [`ListEntry::to_bits`], or 0.
    #[must_use]
    #[inline(always)]
    pub const fn to_bits(self, now: Instant) -> u64 {
        if now.as_nanos() < self.banned_until_ns {
            self.bits | (BANNED as u64) << 32
        } else {
            self.bits
        }
    }
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
    fn an_entry_in_one_word_says_the_same_at_its_time() {
        let at = Instant::from_nanos;
        for allowed in [false, true] {
            for (until, banned) in [(None, false), (Some(at(9)), false), (Some(at(10)), true)] {
                for policy in [None, Some(0), Some(u32::MAX)] {
                    let entry = ListEntry::new(allowed, until, policy);
                    for entry in [entry, entry.protected()] {
                        let told = ListEntry::from_bits(entry.to_bits(at(9))).unwrap();
                        let said = |entry: ListEntry| {
                            (entry.is_allowed(), entry.policy(), entry.is_protected())
                        };
                        assert_eq!(said(told), said(entry));
                        assert_eq!(told.is_banned(at(9)), banned);
                    }
                }
            }
        }
        assert_eq!(ListEntry::from_bits(0), None);
    }

    #[test]
    fn an_entry_without_a_word_says_nothing() {
        let entry = ListEntry::default();
        assert!(!entry.is_allowed() && !entry.is_banned(Instant::default()));
        assert_eq!((entry.banned_until(), entry.policy()), (None, None));
    }
}
