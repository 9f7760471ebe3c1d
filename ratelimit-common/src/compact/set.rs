//! A set of eight slots, of which a source may have one.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::AtomicWords;

/// Slots per set. If there are half as many sources as slots, 3.7 % of packets find their state
/// gone with four slots per set, and 0.8 % with eight.
pub const SLOTS: usize = 8;

/// A source's tag, and the word of its limit.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Slot {
    /// See [`Mix`](super::Mix).
    pub tag: u64,
    /// The state of the limit.
    pub word: u64,
}

/// The slots of a set: two adjacent cache lines.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Set {
    /// The slots, in no particular order.
    pub slots: [Slot; SLOTS],
}
const _: () = assert!(size_of::<Set>() == 128);

/// The words of a set: those of its slots, each a tag and the word of a limit.
pub const WORDS: usize = 2 * SLOTS;

/// The index of the tag of a slot in the words of a set.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a slot is below SLOTS")]
pub const fn tag_at(slot: usize) -> u32 {
    (slot as u32).wrapping_mul(2)
}

/// The index of the word of a slot in the words of a set.
#[inline(always)]
pub const fn word_at(slot: usize) -> u32 {
    tag_at(slot).wrapping_add(1)
}

/// The slot of a source, or [`SLOTS`] if it has none.
#[inline(always)]
pub fn find(set: &impl AtomicWords, tag: u64) -> usize {
    for slot in 0..SLOTS {
        if is_same(set.load(tag_at(slot)), tag) {
            return slot;
        }
    }
    SLOTS
}

/// Slots are distinguished by the lower half of the tag, because the upper half selects the set.
/// Two sources of a set share a slot with a probability of 2^-32.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
const fn is_same(tag: u64, other: u64) -> bool {
    tag as u32 == other as u32
}

/// The slot with the least debt: an empty one, otherwise the one with the lowest word relative to
/// `origin`.
#[inline(always)]
pub fn least(set: &impl AtomicWords, origin: u64) -> usize {
    let mut least = 0;
    let mut least_debt = u64::MAX;
    for slot in 0..SLOTS {
        let word = set.load(word_at(slot));
        if word == 0 {
            return slot;
        }
        let debt = word.wrapping_sub(origin);
        if debt < least_debt {
            (least, least_debt) = (slot, debt);
        }
    }
    least
}
