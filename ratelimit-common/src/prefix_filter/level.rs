//! A level: some prefix lengths, and the encoding of their words.

use super::{BITS, WIDE, WIDTH_MIN};
use crate::Address;

/// Some lengths of prefixes, and the words that say where there are any.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Level {
    /// The index of the first word. The words of the width `w` are the 2^w words behind the first
    /// 2^w.
    pub(super) first: u32,
    /// The most words it may have, as a power of two.
    pub(super) width_max: u8,
    /// The length of the networks that share a word with others or have it to themselves.
    pub(super) bits: u8,
    /// The longest prefixes.
    pub(super) longest: u8,
    /// The number of prefix lengths, and of bits for them in a word.
    pub(super) lengths: u8,
    /// The bits of the filter of networks; the rest belong to the filter of prefixes.
    pub(super) networks: u8,
    /// The bit of a wide word that says whether this level has entries; unused in the wide level.
    pub(super) announced_by: u8,
}

impl Level {
    pub(super) const fn end(self) -> u32 {
        self.first.saturating_add(2 << self.width_max)
    }

    pub(super) const fn shortest(self) -> u8 {
        self.longest.saturating_sub(self.lengths).saturating_add(1)
    }

    /// A number that no other level of the family has.
    pub const fn number(self) -> u8 {
        self.announced_by
    }

    /// The most words, as a power of two.
    pub const fn width_max(self) -> u8 {
        self.width_max
    }

    /// The width for a number of prefixes: as many words as prefixes, up to the maximum.
    pub fn width_for(self, prefixes: usize) -> u8 {
        let width = prefixes.max(1).next_power_of_two().trailing_zeros();
        u8::try_from(width).map_or(self.width_max, |width| {
            width.clamp(WIDTH_MIN, self.width_max)
        })
    }

    /// The words of a width.
    pub fn words_of(self, width: u8) -> core::ops::Range<u32> {
        let count = 1u32.wrapping_shl(width.into());
        let first = self.first.wrapping_add(count);
        first..first.wrapping_add(count)
    }

    /// The word of a wide level for the network around `address`.
    #[inline(always)]
    pub(super) fn wide_word<A: Address>(self, address: A) -> u32 {
        address.region(self.bits, self.width_max)
    }

    /// The word of a narrower level for the network around `address`.
    #[inline(always)]
    pub(super) fn word<A: Address>(self, address: A, width: u8) -> u32 {
        let first = self.first.wrapping_add(1u32.wrapping_shl(width.into()));
        first.wrapping_add(address.region(self.bits, width))
    }

    /// The bits of the prefix of `length` whose first address is `address`, in the word of
    /// `network`.
    pub(super) fn mark<A: Address>(self, network: A, address: A, length: u8) -> u64 {
        let length_bit = bit(self.longest.saturating_sub(length).into());
        length_bit | self.network_bits(network) | self.prefix_bits(address, length)
    }

    /// The networks of a prefix, each by its first address.
    pub(super) fn networks<A: Address>(self, address: A, length: u8) -> impl Iterator<Item = A> {
        let spans = self.bits.saturating_sub(length);
        (0..1u32.wrapping_shl(spans.into())).map(move |span| address.nth(span, self.bits))
    }

    /// The bits of a word for lengths: bit 0 for the longest.
    #[inline(always)]
    pub(super) const fn length_bits(self) -> u64 {
        !u64::MAX.wrapping_shl(self.lengths as u32)
    }

    /// The bits of a network in its filter, which is empty where the word has no room for one.
    #[inline(always)]
    fn network_bits<A: Address>(self, address: A) -> u64 {
        if self.networks == 0 {
            return 0;
        }
        two_bits(address.prefix(self.bits).mixed(self.bits), self.networks)
            .wrapping_shl(self.lengths.into())
    }

    /// The bits of a prefix, given by its first address, in the filter of prefixes.
    #[inline(always)]
    fn prefix_bits<A: Address>(self, address: A, length: u8) -> u64 {
        let below = self.lengths.wrapping_add(self.networks);
        two_bits(address.mixed(length), BITS.wrapping_sub(below)).wrapping_shl(below.into())
    }

    /// Whether `word` may know a prefix around `address`.
    #[inline(always)]
    pub(super) fn may_match<A: Address>(self, word: u64, address: A) -> bool {
        let network = self.network_bits(address);
        word & self.length_bits() != 0 && word & network == network
    }

    /// The result of `lookup` for the longest prefix that has one, where `word` is that of the
    /// address. It is asked about lengths that have a prefix somewhere.
    #[inline(always)]
    pub fn longest_match<A: Address, T>(
        self,
        word: u64,
        mut lookup: impl FnMut(u8) -> Option<T>,
    ) -> Option<T> {
        let mut lengths = word & self.length_bits();
        // No level has more than the wide one.
        for _ in 0..A::LEVELS.wide.lengths {
            if lengths == 0 {
                return None;
            }
            let length = self.longest_of(lengths);
            lengths &= lengths.wrapping_sub(1);
            if let Some(found) = lookup(length) {
                return Some(found);
            }
        }
        None
    }

    /// The prefix of `length` around `address`, if `word` may know it.
    #[inline(always)]
    pub fn candidate<A: Address>(self, word: u64, address: A, length: u8) -> Option<A> {
        let front = address.prefix(length);
        let bits = self.prefix_bits(front, length);
        (word & bits == bits).then_some(front)
    }

    /// The part of `address` that [`longest_match`](Self::longest_match) depends on: its prefix of
    /// the longest length in `word`.
    #[inline(always)]
    pub fn front<A: Address>(self, word: u64, address: A) -> A {
        address.prefix(self.longest_of(word & self.length_bits()))
    }

    /// The longest of some lengths, which are bits of a word.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "at most 128")]
    fn longest_of(self, lengths: u64) -> u8 {
        u32::from(self.longest).wrapping_sub(lengths.trailing_zeros()) as u8
    }

    /// What [`candidate`](Self::candidate) and [`longest_match`](Self::longest_match) depend on, in
    /// 24 bits.
    #[inline(always)]
    pub const fn lengths_to_bits(self) -> u64 {
        (self.networks as u64) << 16 | (self.longest as u64) << 8 | self.lengths as u64
    }

    /// Creates a level for these lengths only.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a byte each")]
    pub const fn of_lengths(bits: u64) -> Self {
        Self {
            longest: (bits >> 8) as u8,
            lengths: bits as u8 & 63,
            networks: (bits >> 16) as u8 & 63,
            ..WIDE
        }
    }
}

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "below 64")]
pub const fn bit(place: u64) -> u64 {
    1u64.wrapping_shl(place as u32)
}

/// Two of `range` bits, which may be the same, for a number that is as good as random.
#[inline(always)]
fn two_bits(number: u32, range: u8) -> u64 {
    // The upper half of a product spreads a number over a range, and the lower half is as good as
    // another number.
    let product = u64::from(number).wrapping_mul(range.into());
    let again = (product & u64::from(u32::MAX)).wrapping_mul(range.into());
    bit(product >> 32) | bit(again >> 32)
}
