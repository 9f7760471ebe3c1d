//! The `compact` store in memory, for one thread: the same code as in the kernel chooses, claims
//! and charges its slots.

use std::cell::Cell;

use ratelimit_common::{
    Address, AtomicWords, Instant, Limit,
    charge::Outcome,
    compact::{self, Mix, SLOTS, Set, Slot, WORDS, tag_at, word_at},
};

use super::family::exchange;

/// The sets of one family.
#[derive(Debug)]
pub struct MemoryCompact {
    sets: Vec<MemorySet>,
    mix: Mix,
    claims: Cell<u64>,
}

impl MemoryCompact {
    /// A table of empty sets.
    pub(super) fn new(sets: u32, mix: Mix) -> Self {
        let empty = || MemorySet(std::array::from_fn(|_| Cell::default()));
        Self {
            sets: (0..sets).map(|_| empty()).collect(),
            mix,
            claims: Cell::new(0),
        }
    }

    /// The contents of the table.
    pub fn sets(&self) -> Vec<Set> {
        let read = |set: &MemorySet| Set {
            slots: std::array::from_fn(|slot| Slot {
                tag: set.load(tag_at(slot)),
                word: set.load(word_at(slot)),
            }),
        };
        self.sets.iter().map(read).collect()
    }

    /// The number of claims of slots.
    pub const fn claims(&self) -> u64 {
        self.claims.get()
    }

    /// The number of slots of one source that were claimed for another.
    pub(super) fn evicted(&self) -> u64 {
        let tags =
            |set: &MemorySet| std::array::from_fn::<_, SLOTS, _>(|slot| set.load(tag_at(slot)));
        let in_use = self
            .sets
            .iter()
            .flat_map(tags)
            .filter(|tag| *tag != 0)
            .count();
        self.claims().saturating_sub(in_use as u64)
    }

    /// The state of the source with this address.
    pub(super) fn source<A: Address>(&self, address: A) -> CompactSource<'_> {
        CompactSource {
            table: self,
            tag: self.mix.tag(address.key()),
        }
    }
}

/// The slots of one source.
#[derive(Clone, Copy, Debug)]
pub struct CompactSource<'a> {
    table: &'a MemoryCompact,
    tag: u64,
}

impl CompactSource<'_> {
    /// Whether the source has its slot of `limit`.
    pub(super) fn has_slot(&self, limit: &Limit) -> bool {
        compact::find(self.set(limit), self.tag) < SLOTS
    }

    pub(super) fn check(&self, limit: &Limit, at: Instant, cost: u64) -> Outcome {
        compact::check(self.set(limit), self.tag, limit, at, cost)
    }

    pub(super) fn charge(&self, limit: &Limit, at: Instant, cost: u64) -> Outcome {
        let (outcome, is_new) = compact::charge(self.set(limit), self.tag, limit, at, cost);
        let claims = &self.table.claims;
        claims.set(claims.get() + u64::from(is_new));
        outcome
    }

    fn set(&self, limit: &Limit) -> &MemorySet {
        &self.table.sets[limit.region().set_of(self.tag) as usize]
    }
}

/// A set whose words one thread changes.
#[derive(Debug)]
struct MemorySet([Cell<u64>; WORDS]);

impl AtomicWords for MemorySet {
    fn load(&self, index: u32) -> u64 {
        self.0[index as usize].get()
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        exchange(&self.0[index as usize], current, new)
    }
}
