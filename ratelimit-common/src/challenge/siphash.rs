//! SipHash-2-4 (Aumasson, Bernstein 2012) of a message of whole words.

/// The hash of `words` under a key of two words.
#[inline(always)]
pub fn hash<const N: usize>(key: [u64; 2], words: [u64; N]) -> u64 {
    let [k0, k1] = key;
    let mut state = State([
        k0 ^ 0x736f_6d65_7073_6575,
        k1 ^ 0x646f_7261_6e64_6f6d,
        k0 ^ 0x6c79_6765_6e65_7261,
        k1 ^ 0x7465_6462_7974_6573,
    ]);
    for word in words {
        state.absorb(word);
    }
    // The last word contains the remaining bytes (here none) below the length of the message.
    state.absorb((N as u64).wrapping_mul(8).wrapping_shl(56));
    state.finish()
}

struct State([u64; 4]);

impl State {
    #[inline(always)]
    const fn absorb(&mut self, word: u64) {
        let [v0, v1, v2, v3] = self.0;
        self.0 = [v0, v1, v2, v3 ^ word];
        self.round();
        self.round();
        let [v0, v1, v2, v3] = self.0;
        self.0 = [v0 ^ word, v1, v2, v3];
    }

    #[inline(always)]
    const fn finish(mut self) -> u64 {
        let [v0, v1, v2, v3] = self.0;
        self.0 = [v0, v1, v2 ^ 0xff, v3];
        self.round();
        self.round();
        self.round();
        self.round();
        let [v0, v1, v2, v3] = self.0;
        v0 ^ v1 ^ v2 ^ v3
    }

    #[inline(always)]
    const fn round(&mut self) {
        let [mut v0, mut v1, mut v2, mut v3] = self.0;
        v0 = v0.wrapping_add(v1);
        v1 = v1.rotate_left(13) ^ v0;
        v0 = v0.rotate_left(32);
        v2 = v2.wrapping_add(v3);
        v3 = v3.rotate_left(16) ^ v2;
        v0 = v0.wrapping_add(v3);
        v3 = v3.rotate_left(21) ^ v0;
        v2 = v2.wrapping_add(v1);
        v1 = v1.rotate_left(17) ^ v2;
        v2 = v2.rotate_left(32);
        self.0 = [v0, v1, v2, v3];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `vectors_sip64` of the reference implementation: key 00 01 ... 0f, message 00 01 ...
    #[test]
    fn the_reference_vectors_hold() {
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(hash(key, []), 0x726f_db47_dd0e_0e31);
        assert_eq!(hash(key, [0x0706_0504_0302_0100]), 0x93f5_f579_9a93_2462);
    }

    proptest! {
        /// The hasher of the standard library is SipHash-2-4 as well.
        #[test]
        #[expect(deprecated, reason = "nothing else in the standard library promises its \
                                       algorithm")]
        fn it_is_that_of_the_standard_library(key: [u64; 2], words: [u64; 5]) {
            use core::hash::{Hasher as _, SipHasher};
            let mut hasher = SipHasher::new_with_keys(key[0], key[1]);
            for word in words {
                hasher.write(&word.to_le_bytes());
            }
            prop_assert_eq!(hash(key, words), hasher.finish());
        }
    }
}
