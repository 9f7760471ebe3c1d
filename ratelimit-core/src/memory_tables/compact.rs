//! The `compact` store in memory, for one thread: the same code as in the kernel chooses, claims
//! and charges its slots.

use std::cell::Cell;

use ratelimit_common::{
    Address, Instant, Limit,
    charge::Outcome,
    compact::{self, Mix, SLOTS, Set, Slot, Slots},
};

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
            slots: set.0.each_ref().map(Cell::get),
        };
        self.sets.iter().map(read).collect()
    }

    /// The number of claims of slots.
    pub const fn claims(&self) -> u64 {
        self.claims.get()
    }

    /// The number of slots of one source that were claimed for another.
    pub(super) fn evicted(&self) -> u64 {
        let slots = self.sets.iter().flat_map(|set| &set.0);
        let in_use = slots.filter(|slot| slot.get().tag != 0).count();
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

/// A set whose slots one thread changes.
#[derive(Debug)]
struct MemorySet([Cell<Slot>; SLOTS]);

impl Slots for MemorySet {
    fn tag(&self, slot: usize) -> u64 {
        self.0[slot].get().tag
    }

    fn exchange_tag(&self, slot: usize, current: u64, tag: u64) -> Result<(), u64> {
        let found = self.0[slot].get();
        if found.tag != current {
            return Err(found.tag);
        }
        self.0[slot].set(Slot { tag, ..found });
        Ok(())
    }

    fn word(&self, slot: usize) -> u64 {
        self.0[slot].get().word
    }

    fn exchange_word(&self, slot: usize, current: u64, word: u64) -> Result<(), u64> {
        let found = self.0[slot].get();
        if found.word != current {
            return Err(found.word);
        }
        self.0[slot].set(Slot { word, ..found });
        Ok(())
    }
}
