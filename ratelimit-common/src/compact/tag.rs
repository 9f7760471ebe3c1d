//! The tag of a source: its key, mixed so that its set cannot be chosen without knowing the seeds.
//!
//! The mix is a bijection of 64 bits: no two sources have the same tag, and user space can invert
//! it. Two rounds of a multiplication and a shift, as in the finalizer of `MurmurHash3` (Appleby)
//! and splitmix64 (Steele, Lea, Flood, OOPSLA 2014). The multipliers are drawn when the table is
//! created.

/// The seeds: two odd multipliers.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Mix {
    first: u64,
    second: u64,
}

const HALF: u32 = 32;
const BETWEEN: u32 = 29;

impl Mix {
    /// Creates a mix from two random numbers, made odd so that multiplication is invertible.
    #[inline(always)]
    pub const fn new(seeds: [u64; 2]) -> Self {
        let [first, second] = seeds;
        Self {
            first: first | 1,
            second: second | 1,
        }
    }

    /// The tag of a key. The tag of 0 is 0, so an empty slot is one of the key 0 without usage.
    #[inline(always)]
    pub const fn tag(self, key: u64) -> u64 {
        let tag = (key ^ key.wrapping_shr(HALF)).wrapping_mul(self.first);
        let tag = (tag ^ tag.wrapping_shr(BETWEEN)).wrapping_mul(self.second);
        tag ^ tag.wrapping_shr(HALF)
    }

    /// The key of a tag.
    pub const fn key(self, tag: u64) -> u64 {
        let key = (tag ^ tag.wrapping_shr(HALF)).wrapping_mul(inverse(self.second));
        let key = key ^ key.wrapping_shr(BETWEEN) ^ key.wrapping_shr(BETWEEN * 2);
        let key = key.wrapping_mul(inverse(self.first));
        key ^ key.wrapping_shr(HALF)
    }
}

/// The inverse of an odd number modulo 2^64, by Newton's method: each step doubles the correct
/// bits, starting at 3.
const fn inverse(odd: u64) -> u64 {
    let mut inverse = odd;
    let mut bits = 3u32;
    while bits < u64::BITS {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(odd.wrapping_mul(inverse)));
        bits = bits.wrapping_mul(2);
    }
    inverse
}

#[cfg(test)]
mod tests {
    use std::vec;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_tag_tells_its_key(seeds: [u64; 2], key: u64) {
            let mix = Mix::new(seeds);
            prop_assert_eq!(mix.key(mix.tag(key)), key);
            prop_assert_eq!(mix.tag(mix.key(key)), key);
            prop_assert_eq!(mix.tag(0), 0);
        }
    }

    /// With random seeds, neighbours are spread like random keys. By Poisson, 0.27 of the sets get
    /// none of 1.3 times as many neighbours.
    #[test]
    fn neighbours_are_spread_over_the_sets() {
        const SETS: usize = 10_000;
        for seeds in [
            [0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9],
            [0xd1b5_4a32_d192_ed03, 0x2545_f491_4f6c_dd1d],
        ] {
            let mix = Mix::new(seeds);
            for step in [1u64, 256, 1 << 16, 1 << 32, 1 << 48] {
                let mut is_hit = vec![false; SETS];
                for source in 0..13_000 {
                    let high = mix.tag(0x0a00_0000 + source * step) >> HALF;
                    is_hit[usize::try_from((high * SETS as u64) >> HALF).unwrap()] = true;
                }
                let empty = is_hit.iter().filter(|hit| !**hit).count();
                assert!(
                    (2_400..3_050).contains(&empty),
                    "{empty} empty at steps of {step}"
                );
            }
        }
    }
}
