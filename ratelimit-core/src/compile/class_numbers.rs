//! The numbers under which the datapath knows classes.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_common::{ClassSet, class::CLASSES_MAX};

use crate::{
    class::{Class, Selected},
    class_tables::ClassTables,
};

/// The classes that limits count, one for each prefix of `destination`, keyed by definition: an
/// unchanged class keeps its number, also if it is renamed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ClassNumbers(BTreeMap<Class, ClassSet>);

/// More classes than the datapath can tell apart.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "too many classes (maximum {CLASSES_MAX}, including those before the change): change fewer at \
     once"
)]
pub struct TooManyClasses;

impl ClassNumbers {
    /// Numbers the classes of `wanted`, and forgets all others. `held` are the arrays in the
    /// datapath.
    ///
    /// A class that exists from before a restart keeps its number. Another class gets a number that
    /// no class in the datapath has, so that both can exist while one replaces the other.
    ///
    /// # Errors
    ///
    /// If no number is free; then nothing changes.
    pub fn assign(
        &mut self,
        wanted: BTreeSet<Class>,
        held: &ClassTables,
    ) -> Result<(), TooManyClasses> {
        let wanted = wanted.into_iter();
        let wanted = wanted.flat_map(|class| class.by_destination());
        let wanted: BTreeSet<Class> = wanted.collect();
        let mut numbers: BTreeMap<Class, ClassSet> = wanted
            .iter()
            .filter_map(|class| Some((class.clone(), *self.0.get(class)?)))
            .collect();
        let mut taken = self
            .0
            .values()
            .copied()
            .fold(held.classes(), ClassSet::union);
        for class in wanted {
            if numbers.contains_key(&class) {
                continue;
            }
            let known = held.number_of(&class).filter(|known| !self.has(*known));
            let number = match known {
                Some(known) => known,
                None => free(taken).ok_or(TooManyClasses)?,
            };
            taken = taken.union(number);
            numbers.insert(class, number);
        }
        self.0 = numbers;
        Ok(())
    }

    /// Returns the classes that a limit counts in a policy whose limits count `counted`.
    pub fn set_of(&self, selected: &Selected, counted: ClassSet) -> ClassSet {
        match selected {
            Selected::Other => counted.none_of(),
            Selected::Class(class) => self.number_of(class),
        }
    }

    /// The classes that some limits count.
    pub fn counted<'a>(&self, selected: impl Iterator<Item = &'a Selected>) -> ClassSet {
        selected.fold(ClassSet::NONE, |counted, selected| match selected {
            Selected::Other => counted,
            Selected::Class(class) => counted.union(self.number_of(class)),
        })
    }

    /// Returns the numbers of a class, one for each of its parts; empty if it has none.
    pub fn number_of(&self, class: &Class) -> ClassSet {
        let parts = class.by_destination();
        let numbers = parts.iter().filter_map(|part| self.0.get(part));
        numbers.copied().fold(ClassSet::NONE, ClassSet::union)
    }

    /// The arrays by which the datapath looks them up.
    pub fn tables(&self) -> ClassTables {
        let mut tables = ClassTables::default();
        for (class, number) in &self.0 {
            tables.add_class(*number, class);
        }
        tables
    }

    fn has(&self, number: ClassSet) -> bool {
        self.0.values().any(|taken| *taken == number)
    }
}

fn free(taken: ClassSet) -> Option<ClassSet> {
    (0..CLASSES_MAX)
        .filter_map(ClassSet::one)
        .find(|number| !number.intersects(taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_that_stays_keeps_its_number_and_another_one_gets_a_new_one() {
        let mut numbers = ClassNumbers::default();
        numbers
            .assign(classes(0..3), &ClassTables::default())
            .unwrap();
        let (held, before) = (numbers.tables(), numbers.clone());
        numbers.assign(classes(1..4), &held).unwrap();
        for stays in classes(1..3) {
            assert_eq!(set(&numbers, &stays), set(&before, &stays));
        }
        let [new] = Vec::from_iter(classes(3..4)).try_into().unwrap();
        assert!(!set(&numbers, &new).intersects(held.classes()));
    }

    #[test]
    fn what_is_in_the_datapath_from_before_a_restart_keeps_its_number() {
        let mut before = ClassNumbers::default();
        before
            .assign(classes(5..6), &ClassTables::default())
            .unwrap();
        before.assign(classes(5..9), &before.tables()).unwrap();
        let mut after = ClassNumbers::default();
        after.assign(classes(2..9), &before.tables()).unwrap();
        for class in classes(5..9) {
            assert_eq!(set(&after, &class), set(&before, &class));
        }
        assert_eq!(after.tables().classes().bits().count_ones(), 7);
    }

    #[test]
    fn no_number_is_given_twice() {
        let mut numbers = ClassNumbers::default();
        numbers
            .assign(classes(0..31), &ClassTables::default())
            .unwrap();
        assert_eq!(numbers.tables().classes().bits(), u32::MAX >> 1);
        let (held, before) = (numbers.tables(), numbers.clone());
        assert_eq!(numbers.assign(classes(1..32), &held), Err(TooManyClasses));
        assert_eq!(numbers, before);
        numbers.assign(classes(1..31), &held).unwrap();
        let held = numbers.tables();
        assert_eq!(numbers.assign(classes(1..32), &held), Ok(()));
    }

    fn set(numbers: &ClassNumbers, class: &Class) -> ClassSet {
        numbers.number_of(class)
    }

    /// Classes of the destination ports of a range.
    fn classes(ports: std::ops::Range<u16>) -> BTreeSet<Class> {
        ports
            .map(|port| {
                serde_json::from_str(&format!(r#"{{"destination_ports": ["{port}"]}}"#)).unwrap()
            })
            .collect()
    }
}
