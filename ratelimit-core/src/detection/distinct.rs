//! Counts distinct things with a lower bound: a bitmap in which each sets one bit (the map of
//! linear counting: Whang, Vander-Zanden and Taylor, TODS 1990). Only set bits are counted, so two
//! things with the same bit count as one.

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
    /// Adds an item. The hash is keyed, so attackers cannot choose items that share a bit.
    pub fn add(&mut self, thing: impl Hash, key: &RandomState) {
        let bit = key.hash_one(thing) % (64 * WORDS as u64);
        let word = usize::try_from(bit / 64).expect("below WORDS");
        self.0[word] |= 1 << (bit % 64);
    }

    /// Returns a lower bound of the count.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }

    /// Whether nearly all of the `added` values are different: at least seven of ten, or more than
    /// can be counted.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    pub fn is_nearly_all_of(&self, added: u64) -> bool {
        let (all, set) = ((64 * WORDS) as f64, self.count() as f64);
        if set >= 0.95 * all {
            return true;
        }
        let estimate = -all * (1.0 - set / all).ln();
        estimate >= 0.7 * added as f64
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

    #[test]
    fn repetition_is_distinguished_from_things_that_are_all_different() {
        let key = RandomState::new();
        for added in [10, 1_000, 4_000, 20_000] {
            let (mut different, mut repeated) = (Distinct::<64>::default(), Distinct::default());
            for thing in 0..added {
                different.add(thing, &key);
                repeated.add(thing / 4 % 2_000, &key);
            }
            assert!(different.is_nearly_all_of(added), "{added}");
            assert!(
                !Distinct::<64>::is_nearly_all_of(&repeated, added),
                "{added}"
            );
        }
    }
}
