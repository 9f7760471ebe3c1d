//! Classes: what a packet is, besides from whom, so that a limit can be one of SYNs or of DNS answers only.
//!
//! A class is a bit. Each of three arrays says for one property of a packet (what it is, where it goes, where it comes
//! from) which classes it may still belong to; the packet belongs to those that all three name. So the cost does not grow
//! with the number of classes (bit vectors: Lakshman and Stiliadis, SIGCOMM 1998).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Cursor, Tables,
    parse::transport::{Kind, UpperLayer},
};

/// Classes that can be told apart, besides [`ClassSet::OTHER`].
pub const CLASSES_MAX: usize = 31;

/// The entries of the array by [`Kind`].
pub const KINDS: u32 = Kind::COUNT;

/// The entries of each array by port: one for each, and the last for packets that have none.
pub const PORTS: u32 = 65_537;

/// The entry of a packet without ports.
pub const NO_PORT: u32 = 65_536;

/// A set of classes, a bit each.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct ClassSet(u32);

impl ClassSet {
    /// Every class: what a limit without a class applies to.
    pub const ALL: Self = Self(u32::MAX);

    /// The class of the packets that belong to no other.
    pub const OTHER: Self = Self(1 << CLASSES_MAX);

    /// No class: no packet, no limit.
    pub const NONE: Self = Self(0);

    /// The class with this number; `None` from [`CLASSES_MAX`] on.
    #[must_use]
    pub const fn one(number: usize) -> Option<Self> {
        if number < CLASSES_MAX {
            Some(Self(1 << number))
        } else {
            None
        }
    }

    /// The classes of both sets.
    #[must_use]
    #[inline(always)]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The classes that both sets have.
    #[must_use]
    #[inline(always)]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The classes of this set that the other lacks.
    #[must_use]
    #[inline(always)]
    pub const fn difference(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether the sets have a class in common.
    #[must_use]
    #[inline(always)]
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether the set has no class.
    #[must_use]
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The bits, one a class.
    #[must_use]
    #[inline(always)]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The set with these bits.
    #[must_use]
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// The classes of the packet in `frame`, a cursor at its front, whose upper layer is `upper`.
#[must_use]
#[inline(always)]
pub fn classify(frame: Cursor<'_>, upper: UpperLayer, tables: &impl Tables) -> ClassSet {
    let transport = upper.transport(frame);
    let classes = tables
        .classes_of(transport.kind)
        .intersection(tables.classes_from(transport.source_port))
        .intersection(tables.classes_to(transport.destination_port));
    if classes.is_empty() {
        ClassSet::OTHER
    } else {
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_classes_as_bits_less_the_one_of_the_others() {
        let all = (0..CLASSES_MAX).fold(ClassSet::OTHER, |set, number| {
            set.union(ClassSet::one(number).unwrap())
        });
        assert_eq!(all, ClassSet::ALL);
        assert_eq!(ClassSet::one(CLASSES_MAX), None);
    }
}
