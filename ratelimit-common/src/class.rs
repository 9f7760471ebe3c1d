//! Classes of packets, so that a limit can apply to SYNs or DNS answers only.
//!
//! A class is a bit. For each value of each [`Property`] of a packet, an array contains the classes
//! that it excludes. The packet belongs to the classes that no property excludes. So the cost does
//! not depend on the number of classes (bit vectors: Lakshman and Stiliadis, SIGCOMM 1998), and a
//! class without a condition on a property writes nothing there.

mod property;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use property::{NO_VLAN, Property};

/// The most classes.
pub const CLASSES_MAX: usize = 31;

/// A set of classes, one bit each: those of a packet, or those whose packets a limit counts.
///
/// A limit may also count the packets that belong to no class of a set. That is a property of the
/// limit, not a class of all other packets, so classes in other policies do not affect it.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct ClassSet(u32);

/// Marks a set that counts the packets of none of its classes.
const NONE_OF: u32 = 1 << CLASSES_MAX;

impl ClassSet {
    /// All packets: for limits without a class.
    pub const ALL: Self = Self(NONE_OF);

    /// No class: no packet, no limit.
    pub const NONE: Self = Self(0);

    /// All classes: those of a packet about which nothing is known yet.
    pub const EVERY: Self = Self(NONE_OF - 1);

    /// The class with this number. `None` from [`CLASSES_MAX`] on.
    pub const fn one(number: usize) -> Option<Self> {
        if number < CLASSES_MAX {
            Some(Self(1 << number))
        } else {
            None
        }
    }

    /// The classes of both sets.
    #[inline(always)]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The classes that both sets have.
    #[inline(always)]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The classes of this set that the other lacks.
    #[inline(always)]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Counts the packets that belong to none of these classes.
    pub const fn none_of(self) -> Self {
        Self(self.0 ^ NONE_OF)
    }

    /// Whether packets without any class are counted.
    pub const fn is_none_of(self) -> bool {
        self.0 & NONE_OF != 0
    }

    /// Counts the packets that `self` or `other` counts. A set that counts the packets of none of
    /// some classes is only combined with sets of exactly these classes, as in a policy.
    pub const fn or(self, other: Self) -> Self {
        let (own, others) = (self.0 & !NONE_OF, other.0 & !NONE_OF);
        match (self.0 & NONE_OF != 0, other.0 & NONE_OF != 0) {
            (false, false) => Self(own | others),
            (true, false) => Self(NONE_OF | own & !others),
            (false, true) => Self(NONE_OF | others & !own),
            (true, true) => Self(NONE_OF | own & others),
        }
    }

    /// Whether packets of these classes are counted.
    #[inline(always)]
    pub const fn counts(self, packet: Self) -> bool {
        // 0 means no match, and above `NONE_OF` is a class that is not counted. So a single
        // comparison suffices.
        let both = self.0 & (packet.0 | NONE_OF);
        both.wrapping_sub(1) < NONE_OF
    }

    /// Whether the sets have a class in common.
    #[inline(always)]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set has no class.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits, one a class.
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these bits.
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_classes_as_bits_less_one() {
        let all = (0..CLASSES_MAX).fold(ClassSet::NONE, |set, number| {
            set.union(ClassSet::one(number).unwrap())
        });
        assert_eq!(all.none_of().bits(), u32::MAX);
        assert_eq!(ClassSet::one(CLASSES_MAX), None);
    }

    #[test]
    fn what_counts_the_others_counts_packets_of_classes_that_it_does_not_know() {
        let [own, other] = [0, 1].map(|number| ClassSet::one(number).unwrap());
        let none_of = own.none_of();
        for (packet, counted) in [
            (ClassSet::NONE, true),
            (own, false),
            (other, true),
            (own.union(other), false),
        ] {
            assert_eq!(none_of.counts(packet), counted, "{packet:?}");
            assert_eq!(own.counts(packet), !counted, "{packet:?}");
            assert!(ClassSet::ALL.counts(packet) && !ClassSet::NONE.counts(packet));
        }
    }

    #[test]
    fn the_limits_of_a_policy_together_count_what_one_of_them_does() {
        let bits = [1, 2, 4, 3, 5].map(ClassSet::from_bits);
        for one in bits {
            for other in bits {
                let others = one.union(other).none_of();
                for limits in [
                    [one, other, one],
                    [one, other, others],
                    [others, one, other],
                    [one, others, other],
                ] {
                    let together = limits.into_iter().fold(ClassSet::NONE, ClassSet::or);
                    for packet in (0..8).map(ClassSet::from_bits) {
                        let any = limits.iter().any(|limit| limit.counts(packet));
                        assert_eq!(together.counts(packet), any, "{limits:?} {packet:?}");
                    }
                }
            }
        }
    }
}
