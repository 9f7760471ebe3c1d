//! Bans that a policy made, in the packet of the last strike, and that user space has not adopted
//! yet.
//!
//! They lie in a hash map of their own, by source. User space moves them to the lists, where manual
//! bans are. So the map is nearly always empty, and a filter in front of it keeps traffic from
//! being looked for there.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{BanRule, Instant, Policy, strikes::Strike};

/// A ban of a source that repeatedly exceeded its limits.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Detected {
    /// The expiry, in nanoseconds since boot; the end itself is outside.
    pub until_ns: u64,
    /// The start.
    pub at_ns: u64,
    /// The scope of the policy.
    pub scope: u32,
    /// The number of strikes that led to the ban.
    pub strikes: u32,
    /// The index of the limit that refused the last.
    pub limit: u32,
    /// Always zero.
    pub reserved: u32,
}
const _: () = assert!(size_of::<Detected>() == 32);

impl Detected {
    /// The ban by `rule`, that of `policy`, with a strike.
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "at most AFTER_MAX strikes are counted"
    )]
    pub fn new(policy: &Policy, rule: &BanRule, strike: &Strike<'_>) -> Self {
        Self {
            until_ns: rule.until(strike.at).as_nanos(),
            at_ns: strike.at.as_nanos(),
            scope: policy.scope(),
            strikes: rule.after() as u32,
            limit: strike.limit.into(),
            reserved: 0,
        }
    }

    /// Whether the source is banned at `now`.
    #[inline(always)]
    pub const fn is_active(&self, now: Instant) -> bool {
        now.as_nanos() < self.until_ns
    }

    /// Whether this is a new ban after `before` had ended. Until then, only packets that were under
    /// way together with those of `before` cause strikes.
    pub const fn follows(&self, before: &Self) -> bool {
        self.at_ns >= before.until_ns
    }
}

/// The outcome for a source that a policy was to ban.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum BanResult {
    /// It is banned.
    Banned = 0,
    /// It has no TCP connection to this host, and may be forged.
    Forgeable = 1,
    /// There were as many bans of such sources within a minute as there may be.
    TooMany = 2,
    /// The map of bans was full.
    NoRoom = 3,
}

impl BanResult {
    /// All of them, in the order of their counters.
    pub const ALL: [Self; 4] = [Self::Banned, Self::Forgeable, Self::TooMany, Self::NoRoom];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Banned => "banned",
            Self::Forgeable => "forgeable",
            Self::TooMany => "too-many",
            Self::NoRoom => "no-room",
        }
    }
}

/// The counters of one CPU.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Tally {
    /// The number of detections with each [`BanResult`].
    pub detections: [u64; BanResult::ALL.len()],
    /// Events about bans that found the ring full.
    pub events_lost: u64,
}

/// The number of bits of a [`Filter`].
pub const BITS: u32 = 1 << 15;

const WORDS: usize = BITS as usize / 64;

/// A Bloom filter with one hash: a clear bit means that its sources are not in the map. It has a
/// power of two of words.
#[derive(Clone, Copy, Debug, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq)]
#[repr(C)]
pub struct Filter<const N: usize = WORDS> {
    words: [u64; N],
}

impl<const N: usize> Default for Filter<N> {
    fn default() -> Self {
        Self { words: [0; N] }
    }
}

impl Filter {
    /// A filter of no source.
    pub const CLEAR: Self = Self { words: [0; WORDS] };
}

impl<const N: usize> Filter<N> {
    /// Whether a source with this bit may be in the map.
    #[inline(always)]
    pub fn contains(&self, bit: u32) -> bool {
        self.words
            .get(Self::index(bit))
            .is_some_and(|word| word & Self::mask(bit) != 0)
    }

    /// Sets one bit, taken modulo their number.
    #[inline(always)]
    pub fn insert(&mut self, bit: u32) {
        if let Some(word) = self.words.get_mut(Self::index(bit)) {
            *word |= Self::mask(bit);
        }
    }

    /// Clears one bit, taken modulo their number.
    #[inline(always)]
    pub fn remove(&mut self, bit: u32) {
        if let Some(word) = self.words.get_mut(Self::index(bit)) {
            *word &= !Self::mask(bit);
        }
    }

    /// Whether every bit of `other` is set here.
    pub fn covers(&self, other: &Self) -> bool {
        let mut words = self.words.iter().zip(&other.words);
        words.all(|(own, other)| other & !own == 0)
    }

    /// The place of the word that has a bit.
    #[inline(always)]
    pub const fn index(bit: u32) -> usize {
        (bit >> 6) as usize & N.wrapping_sub(1)
    }

    /// The bit in its word.
    #[inline(always)]
    pub const fn mask(bit: u32) -> u64 {
        1u64.wrapping_shl(bit & 63)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Address, Ipv4, Ipv6};

    #[test]
    fn a_filter_holds_the_bits_that_were_set_and_no_others() {
        for bit in [0, 1, 63, 64, 12_345, BITS - 1] {
            let mut filter = Filter::CLEAR;
            filter.insert(bit);
            let set: std::vec::Vec<u32> = (0..BITS).filter(|bit| filter.contains(*bit)).collect();
            assert_eq!(set, [bit]);
            assert!(filter.covers(&Filter::CLEAR) && !Filter::CLEAR.covers(&filter));
        }
    }

    #[test]
    fn neighbours_have_bits_of_their_own() {
        let mut filter = Filter::CLEAR;
        let mut shared = 0;
        for last in 0..=255 {
            for bit in [
                Ipv4::new([192, 0, 2, last]).filter_bit(),
                Ipv6::new([0x20, 1, 0xd, 0xb8, 0, 0, 0, last, 0, 0, 0, 0, 0, 0, 0, 0]).filter_bit(),
                Ipv6::new([0x20, 1, 0xd, 0xb8, 0, last, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]).filter_bit(),
            ] {
                assert!(bit < BITS);
                shared += u32::from(filter.contains(bit));
                filter.insert(bit);
            }
        }
        assert!(
            shared < 40,
            "{shared} of 768 sources share a bit with another"
        );
    }
}
