//! A filter of sources: most packets are of none that is in it, and need no look at the map behind
//! it.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

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
