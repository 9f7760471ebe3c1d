//! How many different things there were, at least: a bitmap that each sets one bit of (the map of linear counting: Whang,
//! Vander-Zanden and Taylor, TODS 1990). The bits are counted as they are: two things of one bit are one.

use std::hash::{BuildHasher, Hash, RandomState};

/// Different things, up to 64 times `WORDS`.
#[derive(Clone, Debug)]
pub struct Distinct<const WORDS: usize>([u64; WORDS]);

impl<const WORDS: usize> Default for Distinct<WORDS> {
    fn default() -> Self {
        Self([0; WORDS])
    }
}

impl<const WORDS: usize> Distinct<WORDS> {
    /// Adds a thing. The hash is keyed, so that nobody can choose things of one bit.
    pub fn add(&mut self, thing: impl Hash, key: &RandomState) {
        let bit = key.hash_one(thing) % (64 * WORDS as u64);
        let word = usize::try_from(bit / 64).expect("below WORDS");
        self.0[word] |= 1 << (bit % 64);
    }

    /// How many there were, at least.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_never_more_than_there_were() {
        let key = RandomState::new();
        let mut distinct = Distinct::<4>::default();
        for round in 0..2 {
            for thing in 0..50_u32 {
                distinct.add(thing, &key);
            }
            assert!((35..=50).contains(&distinct.count()), "round {round}");
        }
        for thing in 0..100_000_u32 {
            distinct.add(thing, &key);
        }
        assert_eq!(distinct.count(), 256);
    }
}
