//! The most frequent keys of a stream in bounded memory: Space-Saving (Metwally, Agrawal and El
//! Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams", ICDT 2005).
//!
//! A key without a counter takes over the smallest one, including its count. A count is therefore
//! never too small, and too large by at most the count it took over. Every key with more than a
//! share of 1 / `capacity` has a counter.

use std::{collections::HashMap, hash::Hash};

/// Counters for at most `capacity` keys, each with a `V` that begins empty.
#[derive(Clone, Debug)]
pub struct SpaceSaving<K, V> {
    capacity: usize,
    /// Position of each key in the heap.
    places: HashMap<K, usize>,
    /// A binary heap, the smallest count in front.
    heap: Vec<Counter<K, V>>,
}

/// The counter of a key.
#[derive(Clone, Debug)]
pub struct Counter<K, V> {
    /// The key.
    pub key: K,
    /// Upper bound of the count.
    pub count: u64,
    /// The inherited part of the count.
    taken_over: u64,
    /// Further data about the key, since it got a counter.
    pub value: V,
}

impl<K, V> Counter<K, V> {
    /// Returns the count that certainly belongs to this key.
    pub fn certain(&self) -> u64 {
        self.count - self.taken_over
    }
}

impl<K: Copy + Eq + Hash, V: Default> SpaceSaving<K, V> {
    /// No counters yet; at least one there may be.
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity: capacity.max(1),
            places: HashMap::new(),
            heap: Vec::new(),
        }
    }

    /// Counts `packets` for `key`, and shows what else is known of it.
    pub fn add(&mut self, key: K, packets: u64) -> &mut V {
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None => self.enter(key),
        };
        let counter = &mut self.heap[place];
        counter.count = counter.count.saturating_add(packets);
        let place = self.sink(place);
        &mut self.heap[place].value
    }

    /// The counter of a key, if it has one.
    pub fn get(&self, key: &K) -> Option<&Counter<K, V>> {
        self.places.get(key).map(|place| &self.heap[*place])
    }

    /// What else is known of a key, if it has a counter.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        let place = self.places.get(key)?;
        Some(&mut self.heap[*place].value)
    }

    /// All counters.
    pub fn iter(&self) -> impl Iterator<Item = &Counter<K, V>> {
        self.heap.iter()
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.places.clear();
        self.heap.clear();
    }

    /// Gives `key` a counter and returns its position.
    fn enter(&mut self, key: K) -> usize {
        let is_full = self.heap.len() == self.capacity;
        let taken_over = if is_full { self.heap[0].count } else { 0 };
        let counter = Counter {
            key,
            count: taken_over,
            taken_over,
            value: V::default(),
        };
        if is_full {
            let before = std::mem::replace(&mut self.heap[0], counter);
            self.places.remove(&before.key);
            self.places.insert(key, 0);
            return 0;
        }
        self.heap.push(counter);
        let place = self.heap.len() - 1;
        self.places.insert(key, place);
        self.rise(place)
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let start = place;
        while place > 0 && self.heap[place].count < self.heap[(place - 1) / 2].count {
            self.heap.swap(place, (place - 1) / 2);
            self.note(place);
            place = (place - 1) / 2;
        }
        self.moved(start, place)
    }

    fn sink(&mut self, mut place: usize) -> usize {
        let start = place;
        loop {
            let children = 2 * place + 1..(2 * place + 3).min(self.heap.len());
            let least = children.min_by_key(|child| self.heap[*child].count);
            let least = least.filter(|least| self.heap[*least].count < self.heap[place].count);
            let Some(least) = least else {
                return self.moved(start, place);
            };
            self.heap.swap(place, least);
            self.note(place);
            place = least;
        }
    }

    /// Returns where a counter is now that moved through the heap. Its position is noted once, as
    /// hashing keys takes most of the time.
    fn moved(&mut self, start: usize, place: usize) -> usize {
        if place != start {
            self.note(place);
        }
        place
    }

    fn note(&mut self, place: usize) {
        self.places.insert(self.heap[place].key, place);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_count_is_never_too_small_and_too_large_by_what_was_taken_over(
            stream in proptest::collection::vec((0..40_u8, 1..9_u64), 0..500)
        ) {
            const CAPACITY: usize = 8;
            let mut counters = SpaceSaving::<u8, ()>::new(CAPACITY);
            let mut exact = BTreeMap::<u8, u64>::new();
            for (key, packets) in &stream {
                counters.add(*key, *packets);
                *exact.entry(*key).or_default() += packets;
            }
            let total: u64 = exact.values().sum();
            let counted: u64 = counters.iter().map(|counter| counter.count).sum();
            prop_assert_eq!(counted, total);
            for counter in counters.iter() {
                prop_assert!(counter.certain() <= exact[&counter.key]);
                prop_assert!(exact[&counter.key] <= counter.count);
            }
            for (key, packets) in exact {
                prop_assert!(packets <= total / CAPACITY as u64 || counters.get(&key).is_some());
            }
        }
    }

    #[test]
    fn what_is_known_of_a_key_goes_with_its_counter() {
        let mut counters = SpaceSaving::<u8, Vec<u8>>::new(1);
        counters.add(1, 5).push(1);
        assert_eq!(counters.add(1, 1), &[1]);
        assert!(counters.add(2, 1).is_empty());
        let counter = counters.get(&2).unwrap();
        assert_eq!((counter.count, counter.certain()), (7, 1));
        assert!(counters.get(&1).is_none());
    }
}
