//! The array by which the classes of a packet are looked up.

use std::ops::Range;

use ratelimit_common::{
    ClassSet,
    class::{CLASSES_MAX, Property},
};
use zerocopy::IntoBytes as _;

use crate::class::Class;

/// For each value of each property the classes that packets with it do not belong to.
#[derive(Clone, Debug, Eq)]
pub struct ClassTables(Vec<ClassSet>);

impl PartialEq for ClassTables {
    /// As bytes: they are compared with each change, and there are many.
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes() == other.0.as_bytes()
    }
}

impl Default for ClassTables {
    /// An array that excludes no packet from any class.
    fn default() -> Self {
        Self(vec![ClassSet::NONE; Property::ENTRIES as usize])
    }
}

impl ClassTables {
    /// Wraps the entries of the datapath's array.
    pub const fn from_entries(entries: Vec<ClassSet>) -> Self {
        Self(entries)
    }

    /// Every entry: those of one property after those of another, see [`Property::start`].
    pub fn entries(&self) -> &[ClassSet] {
        &self.0
    }

    /// The classes that packets of which `property` is `value` do not belong to.
    pub fn excluded(&self, property: Property, value: u32) -> ClassSet {
        let entry = property.start().saturating_add(value) as usize;
        self.0.get(entry).copied().unwrap_or_default()
    }

    /// Classes that constrain `property`, and thus exclude packets for which it is unknown.
    pub fn asking_for(&self, property: Property) -> ClassSet {
        union(self.0.get(part(property)).unwrap_or_default())
    }

    /// Adds the packets of a class under its number.
    pub fn add_class(&mut self, number: ClassSet, class: &Class) {
        self.add(number, |property, value| class.has(property, value));
    }

    /// Adds a class of the packets of which all properties have a value for which `has` holds.
    pub fn add(&mut self, class: ClassSet, has: impl Fn(Property, u32) -> bool) {
        for property in Property::ALL {
            let entries = self.0.get_mut(part(property)).unwrap_or_default();
            for (value, excluded) in (0..).zip(entries) {
                if !has(property, value) {
                    *excluded = excluded.union(class);
                }
            }
        }
    }

    /// Every class: each excludes some packet, because no class matches all.
    pub fn classes(&self) -> ClassSet {
        union(&self.0)
    }

    /// The number under which exactly the packets of `class` are found.
    pub fn number_of(&self, class: &Class) -> Option<ClassSet> {
        let classes = self.classes();
        let numbers = (0..CLASSES_MAX).filter_map(ClassSet::one);
        let mut numbers = numbers.filter(|number| number.intersects(classes));
        numbers.find(|number| {
            Property::ALL.into_iter().all(|property| {
                let mut values = 0..property.values();
                values.all(|value| {
                    let is_excluded = self.excluded(property, value).intersects(*number);
                    is_excluded != class.has(property, value)
                })
            })
        })
    }

    /// The classes of both, entry for entry.
    pub fn union(&self, other: &Self) -> Self {
        let pairs = self.0.iter().zip(&other.0);
        Self(pairs.map(|(own, others)| own.union(*others)).collect())
    }
}

fn part(property: Property) -> Range<usize> {
    let start = property.start() as usize;
    start..start + property.values() as usize
}

fn union(entries: &[ClassSet]) -> ClassSet {
    let sets = entries.iter().copied();
    sets.fold(ClassSet::NONE, ClassSet::union)
}
