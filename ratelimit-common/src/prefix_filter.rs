//! What stands in front of the lists: which lengths of prefixes are worth a lookup for an address.
//!
//! A lookup in a hash map costs as much as everything else that a packet needs, and the longest match may need one for each
//! length. So the prefix-length filter has words, each for a few networks (of IPv4 a /16 or some /24s, of IPv6 the /32s, /56s or /64s of one
//! hash). The lower bits of a word say which lengths have a prefix there. Above them are two Bloom filters (after
//! Dharmapurikar, Krishnamurthy and Taylor, "Longest prefix matching using Bloom filters", 2003). One is of the networks that
//! have a prefix, so that others are done with after a glance, and one of the prefixes themselves. A length is looked up only
//! when the filter knows the very prefix of that length around the address.
//!
//! A bit that is set in vain costs time, one that is clear in vain hides a prefix. So bits are set before their prefix comes,
//! and cleared after it went.

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
    /// Prefixes of which there are many.
    pub narrow: Level,
    /// All others. A packet asks for their word first, which also says whether the narrower levels have anything.
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

    /// The same width for all levels.
    pub fn all_of_width(self, width: u8) -> Widths {
        let levels = self.all_narrower();
        levels.fold(Widths::default(), |widths, level| widths.with(level, width))
    }

    /// The levels whose words grow in number, the narrowest first.
    pub fn all_narrower(self) -> impl Iterator<Item = Level> {
        [self.narrowest, Some(self.narrow)].into_iter().flatten()
    }

    /// The one of them that has the prefixes of a length; `None` stands for the wide one.
    pub fn narrower(self, length: u8) -> Option<Level> {
        self.all_narrower().find(|level| level.shortest() <= length)
    }

    /// Names the bits that the prefix of `length` around `address` needs: words, each with some bits. A bit may be named for
    /// many prefixes.
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
            // So many networks that every word is for some of them.
            return (0..WIDTHS).for_each(|word| mark(word, bits));
        }
        let networks = level.networks(address, length);
        networks.for_each(|network| mark(level.wide_word(network), bits));
    }
}

/// [`Level::longest_match`], wherever its code is kept. A closure is one; what is not one is kept in line whatever its size.
pub trait InLevel<T> {
    /// What is known about the longest of the level's prefixes.
    fn longest_match(&self, level: Level, word: u64) -> Option<T>;
}

impl<T, F: Fn(Level, u64) -> Option<T>> InLevel<T> for F {
    #[inline(always)]
    fn longest_match(&self, level: Level, word: u64) -> Option<T> {
        self(level, word)
    }
}

/// Whether the first word that [`longest_match`] reads says that there is no prefix around `address`.
#[inline(always)]
pub fn is_free<A: Address>(address: A, word: impl Fn(u32) -> u64) -> bool {
    word(A::LEVELS.wide.wide_word(address)) == 0
}

/// What is known about the longest prefix around `address`. `word` reads the prefix-length filter; `in_level` is asked only
/// where the level has something.
#[inline(always)]
pub fn longest_match<A: Address, T>(
    address: A,
    word: impl Fn(u32) -> u64,
    in_level: &impl InLevel<T>,
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
    in_level: &impl InLevel<T>,
) -> Option<T> {
    if level.may_match(word, address) {
        in_level.longest_match(level, word)
    } else {
        None
    }
}
