//! A table that forgets what was not seen for longest, where it has an end. This is what the
//! kernel's LRU hash map does nearly, by its lists of active and inactive entries
//! (`kernel/bpf/bpf_lru_list.c`), here exactly.

use std::{
    cell::{Cell, RefCell},
    collections::{HashMap, VecDeque, hash_map},
    hash::Hash,
};

use smart_default::SmartDefault;

/// Entries by key.
#[derive(Debug, SmartDefault)]
pub struct Recent<K, V> {
    /// Maximum number of entries; `None` is unlimited.
    capacity: Option<usize>,
    entries: HashMap<K, Slot<V>>,
    order: RefCell<Order<K>>,
    forgotten: u64,
}

#[derive(Debug)]
struct Slot<V> {
    value: V,
    /// The number of the look that saw it last.
    seen: Cell<u64>,
}

/// The looks, the oldest first. A key is where it was last, and also where it was before.
#[derive(Debug, SmartDefault)]
struct Order<K> {
    looks: VecDeque<(K, u64)>,
    next: u64,
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    /// Sets the maximum number of entries.
    pub fn set_capacity(&mut self, capacity: usize) {
        self.capacity = Some(capacity.max(1));
    }

    /// The number of forgotten entries.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.entries.iter().map(|(key, entry)| (key, &entry.value))
    }

    /// Whether there is an entry. Asking does not count as a use.
    pub fn contains(&self, key: &K) -> bool {
        self.entries.contains_key(key)
    }

    /// Sees an entry.
    pub fn get(&self, key: &K) -> Option<&V> {
        let entry = self.entries.get(key)?;
        if self.capacity.is_some() {
            entry.seen.set(self.look(*key));
        }
        Some(&entry.value)
    }

    /// Inserts an empty entry, and evicts another if there is no room. Returns whether the entry is
    /// new.
    pub fn insert(&mut self, key: K) -> bool {
        if self.contains(&key) {
            return false;
        }
        if self.capacity.is_some_and(|most| self.entries.len() >= most) {
            self.forget_oldest();
        }
        let seen = match self.capacity {
            Some(_) => self.look(key),
            None => 0,
        };
        let entry = Slot {
            value: V::default(),
            seen: Cell::new(seen),
        };
        self.entries.insert(key, entry);
        true
    }

    fn forget_oldest(&mut self) {
        let order = self.order.get_mut();
        while let Some((key, number)) = order.looks.pop_front() {
            if let hash_map::Entry::Occupied(entry) = self.entries.entry(key)
                && entry.get().seen.get() == number
            {
                entry.remove();
                self.forgotten += 1;
                return;
            }
        }
    }

    /// Records that a key was seen, and returns the number of the access.
    fn look(&self, key: K) -> u64 {
        let mut order = self.order.borrow_mut();
        let Order { looks, next } = &mut *order;
        // Looks that others came after are of no use; half of all are, when they are taken out.
        if looks.len() > 2 * self.entries.len() + 1024 {
            let last = |(key, number): &(K, u64)| {
                let entry = self.entries.get(key);
                entry.is_some_and(|entry| entry.seen.get() == *number)
            };
            looks.retain(last);
        }
        *next += 1;
        looks.push_back((key, *next));
        *next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_last_that_were_seen_are_kept(keys in proptest::collection::vec(0..12_u8, 0..4_000)) {
            const CAPACITY: usize = 5;
            let mut recent = Recent::<u8, Cell<u32>>::default();
            recent.set_capacity(CAPACITY);
            let mut expected: Vec<u8> = Vec::new();
            let mut forgotten = 0;
            for key in keys {
                let is_known = expected.contains(&key);
                prop_assert_eq!(recent.get(&key).is_some(), is_known);
                prop_assert_eq!(recent.insert(key), !is_known);
                expected.retain(|it| *it != key);
                expected.push(key);
                if expected.len() > CAPACITY {
                    expected.remove(0);
                    forgotten += 1;
                }
                prop_assert_eq!(recent.forgotten(), forgotten);
            }
            let mut kept: Vec<u8> = recent.iter().map(|(key, _)| *key).collect();
            kept.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(kept, expected);
        }
    }

    #[test]
    fn without_an_end_nothing_is_forgotten_or_noted() {
        let mut recent = Recent::<u32, Cell<u32>>::default();
        assert!((0..10_000).all(|key| recent.insert(key)));
        assert!((0..10_000).all(|key| recent.get(&key).is_some()));
        assert_eq!(
            (recent.forgotten(), recent.order.borrow().looks.len()),
            (0, 0)
        );
    }
}
