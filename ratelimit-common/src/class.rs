//! Classes: what a packet is, besides from whom, so that a limit can be one of SYNs or of DNS answers only.
//!
//! A class is a bit. For each value of each [`Property`] of a packet an array says which classes its packets do not belong to.
//! The packet belongs to the classes that no property excludes. So the cost does not grow with the number of classes (bit
//! vectors: Lakshman and Stiliadis, SIGCOMM 1998), and a class that says nothing of a property writes nothing there.

mod property;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use property::{NO_VLAN, Property};

/// Classes that can be told apart.
pub const CLASSES_MAX: usize = 31;

/// A set of classes, a bit each: those of a packet, or those whose packets a limit counts.
///
/// A limit may also count the packets of no class of a set. It says so by itself, and not by a class that all other packets have:
/// which classes there are besides, in other policies, makes no difference to it.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct ClassSet(u32);

/// That the packets of none of these classes are counted.
const NONE_OF: u32 = 1 << CLASSES_MAX;

impl ClassSet {
    /// Every packet: what a limit without a class applies to.
    pub const ALL: Self = Self(NONE_OF);

    /// No class: no packet, no limit.
    pub const NONE: Self = Self(0);

    /// Every class there can be: those of a packet of which nothing is known yet.
    pub const EVERY: Self = Self(NONE_OF - 1);

    /// The class with this number; `None` from [`CLASSES_MAX`] on.
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

    /// What counts the packets that belong to none of these classes.
    pub const fn none_of(self) -> Self {
        Self(self.0 ^ NONE_OF)
    }

    /// Whether packets that belong to no class at all are counted.
    pub const fn is_none_of(self) -> bool {
        self.0 & NONE_OF != 0
    }

    /// What counts the packets that this or `other` counts. Who counts none of some classes is put together with all who count these
    /// alone, as in a policy.
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
        // 0 is nobody, above `NONE_OF` is a class that is not counted. So it is one comparison.
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
