//! The filter in front of the lists: it decides which prefix lengths to look up for an address.
//!
//! A lookup in a hash map costs as much as all other processing of a packet, and a longest match
//! may need one for each length. So the prefix-length filter has words, each for a few networks
//! (for IPv4 a /16 or some /24s, for IPv6 the /32s, /56s or /64s with the same hash). The lower
//! bits of a word are the lengths that have a prefix there. Above them are two Bloom filters (after
//! Dharmapurikar, Krishnamurthy and Taylor, "Longest prefix matching using Bloom filters", 2003):
//! one of the networks that have a prefix, which quickly rules out others, and one of the prefixes
//! themselves. A length is looked up only if the filter contains the prefix of that length around
//! the address.
//!
//! A bit that is set unnecessarily costs time, and a missing bit hides a prefix. So bits are set
//! before their prefix is added, and cleared after it was removed.

mod level;
mod widths;

use self::level::bit;
pub use self::{level::Level, widths::Widths};
use crate::Address;

/// The levels of an address family, from the longest prefixes to the shortest.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Levels {
    /// IPv6 prefixes that lie within a /64.
    pub narrowest: Option<Level>,
    /// The level of the frequent prefix lengths.
    pub narrow: Level,
    /// All others. A packet asks for their word first, which also says whether the narrower levels
    /// have anything.
    pub wide: Level,
}

/// The bits of a word that say what prefixes there are: the two above announce narrower levels.
const BITS: u8 = 62;
const NARROW: u8 = 62;
const NARROWEST: u8 = 63;

/// The place of [`Widths`].
pub const WIDTHS: u32 = 1 << 16;

/// The fewest words, and the most: with a million prefixes four share one.
const WIDTH_MIN: u8 = 9;
const WIDTH_MAX: u8 = 18;

/// A word for each /16, and words that /24s share.
pub(crate) const IPV4: Levels = Levels {
    narrowest: None,
    narrow: Level {
        first: WIDTHS + 1,
        width_max: WIDTH_MAX,
        bits: 24,
        longest: 32,
        lengths: 16,
        networks: 23,
        announced_by: NARROW,
    },
    wide: Level {
        bits: 16,
        longest: 16,
        lengths: 17,
        ..WIDE
    },
};

/// Words that /32s, /56s and /64s share: what providers, sites and networks are given.
pub(crate) const IPV6: Levels = Levels {
    narrowest: Some(Level {
        first: IPV4.narrow.end(),
        width_max: WIDTH_MAX,
        bits: 64,
        longest: 128,
        lengths: 48,
        networks: 0,
        announced_by: NARROWEST,
    }),
    narrow: Level {
        bits: 56,
        longest: 80,
        lengths: 32,
        networks: 15,
        ..IPV4.narrow
    },
    wide: Level {
        bits: 32,
        longest: 48,
        lengths: 49,
        ..WIDE
    },
};

const WIDE: Level = Level {
    first: 0,
    width_max: 16,
    bits: 0,
    longest: 0,
    lengths: 0,
    networks: 0,
    announced_by: 0,
};

impl Levels {
    /// The number of words.
    pub const fn words(self) -> u32 {
        match self.narrowest {
            Some(level) => level.end(),
            None => self.narrow.end(),
        }
    }

    /// Uses the same width for all levels.
    pub fn all_of_width(self, width: u8) -> Widths {
        let levels = self.all_narrower();
        levels.fold(Widths::default(), |widths, level| widths.with(level, width))
    }

    /// The levels whose words grow in number, the narrowest first.
    pub fn all_narrower(self) -> impl Iterator<Item = Level> {
        [self.narrowest, Some(self.narrow)].into_iter().flatten()
    }

    /// The level with the prefixes of a length; `None` for the wide one.
    pub fn narrower(self, length: u8) -> Option<Level> {
        self.all_narrower().find(|level| level.shortest() <= length)
    }

    /// Names the bits that the prefix of `length` around `address` needs: words, each with some
    /// bits. A bit may be named for many prefixes.
    pub fn marks<A: Address>(
        self,
        address: A,
        length: u8,
        widths: Widths,
        mut mark: impl FnMut(u32, u64),
    ) {
        let address = address.prefix(length);
        if let Some(level) = self.narrower(length) {
            mark(self.wide.wide_word(address), bit(level.announced_by.into()));
            let width = widths.of(level);
            return level.networks(address, length).for_each(|network| {
                mark(
                    level.word(network, width),
                    level.mark(network, address, length),
                );
            });
        }
        let level = self.wide;
        let bits = level.mark(address, address, length);
        if level.bits.saturating_sub(length) >= level.width_max {
            // There are enough networks to affect every word.
            return (0..WIDTHS).for_each(|word| mark(word, bits));
        }
        let networks = level.networks(address, length);
        networks.for_each(|network| mark(level.wide_word(network), bits));
    }
}

/// Whether the first word that [`longest_match`] reads says that there is no prefix around
/// `address`.
#[inline(always)]
pub fn is_free<A: Address>(address: A, word: impl Fn(u32) -> u64) -> bool {
    word(A::LEVELS.wide.wide_word(address)) == 0
}

/// The result for the longest prefix around `address`. `word` reads the prefix-length filter;
/// `in_level` is called only if the level has a candidate.
#[inline(always)]
pub fn longest_match<A: Address, T>(
    address: A,
    word: impl Fn(u32) -> u64,
    in_level: &impl Fn(Level, u64) -> Option<T>,
) -> Option<T> {
    let Levels {
        narrowest,
        narrow,
        wide,
    } = A::LEVELS;
    let wide_word = word(wide.wide_word(address));
    if wide_word == 0 {
        return None;
    }
    if wide_word >> BITS != 0 {
        let widths = Widths::from_word(word(WIDTHS));
        if let Some(level) = narrowest
            && wide_word & bit(NARROWEST.into()) != 0
            && let Some(found) = search(
                level,
                word(level.word(address, widths.of(level))),
                address,
                in_level,
            )
        {
            return Some(found);
        }
        if wide_word & bit(NARROW.into()) != 0
            && let Some(found) = search(
                narrow,
                word(narrow.word(address, widths.of(narrow))),
                address,
                in_level,
            )
        {
            return Some(found);
        }
    }
    search(wide, wide_word, address, in_level)
}

/// A function of its own, because LLVM does not keep a closure of this size in line.
#[inline(always)]
fn search<A: Address, T>(
    level: Level,
    word: u64,
    address: A,
    in_level: &impl Fn(Level, u64) -> Option<T>,
) -> Option<T> {
    if level.may_match(word, address) {
        in_level(level, word)
    } else {
        None
    }
}
