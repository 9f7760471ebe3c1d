//! The numbers of words in use.

use super::{Level, NARROWEST};

/// The numbers of words in use on the narrower levels, as powers of two: the word behind the wide
/// ones.
///
/// A short list has few words, which stay in the cache for any addresses. For a longer list, bits
/// are first set in more words, and then all packets are switched to these words at once.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Widths(u64);

impl Widths {
    /// The widths that a word says.
    #[inline(always)]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word for them.
    pub const fn to_word(self) -> u64 {
        self.0
    }

    /// The width of a narrower level.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a mask")]
    pub const fn of(self, level: Level) -> u8 {
        self.0.wrapping_shr(Self::shift(level)) as u8 & 31
    }

    /// Replaces the width of a narrower level.
    pub const fn with(self, level: Level, width: u8) -> Self {
        let shift = Self::shift(level);
        Self(self.0 & !0xffu64.wrapping_shl(shift) | (width as u64).wrapping_shl(shift))
    }

    #[inline(always)]
    const fn shift(level: Level) -> u32 {
        if level.announced_by == NARROWEST {
            8
        } else {
            0
        }
    }
}
