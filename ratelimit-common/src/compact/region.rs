//! The part of a table that belongs to one limit.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The sets of one limit. Words of different limits mean different things, so they never share a
/// set.
///
/// The same sets are a limit's in the table of either family.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Hash, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Region {
    first_set: u32,
    sets: u32,
}

impl Region {
    /// `sets` sets from `first_set` on.
    pub const fn new(first_set: u32, sets: u32) -> Self {
        Self { first_set, sets }
    }

    /// The index of its first set in the table.
    pub const fn first_set(self) -> u32 {
        self.first_set
    }

    /// The number of sets; 0 for a limit that has no region.
    pub const fn sets(self) -> u32 {
        self.sets
    }

    /// The index of the first set behind it.
    pub const fn end(self) -> u32 {
        self.first_set.saturating_add(self.sets)
    }

    /// The index in the table of the set in which a source has its slot. It is the upper half of
    /// its tag, scaled to the sets by a multiplication (Lemire, "Fast random integer generation in
    /// an interval", 2019).
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "half of a product of two halves"
    )]
    pub const fn set_of(self, tag: u64) -> u32 {
        let scaled = tag.wrapping_shr(32).wrapping_mul(self.sets as u64);
        self.first_set.wrapping_add(scaled.wrapping_shr(32) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_source_lies_within_the_region(
            first_set in 0u32..1 << 30, sets in 1u32..1 << 30, tag: u64,
        ) {
            let region = Region::new(first_set, sets);
            prop_assert!((first_set..region.end()).contains(&region.set_of(tag)));
        }
    }

    #[test]
    fn a_region_is_used_from_its_first_set_to_its_last() {
        let region = Region::new(7, 5);
        assert_eq!(region.set_of(0), 7);
        assert_eq!(region.set_of(u64::MAX), 11);
    }
}
