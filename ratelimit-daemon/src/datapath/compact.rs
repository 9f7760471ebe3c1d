//! The `compact` table. Scans map the parts that they read into the memory of the daemon; a single
//! set is read with a system call.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    ops::Range,
    slice,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use anyhow::Context;
use ratelimit_common::{
    Address, AtomicWords, Instant, Ipv4, Ipv6, Limit, Policy, Record,
    compact::{self, Mix, Region, SLOTS, Set, WORDS, tag_at, word_at},
};
use ratelimit_core::{compile::ExistingTable, ip_family::IpFamily};

use super::{
    Result, SlotRow, batch,
    kernel::KernelMap,
    mapped::Mapped,
    maps::{Array, Maps},
};
use crate::{
    clock,
    loader::{self, TABLES},
};

const SEEDS: &str = "COMPACT_SEEDS";

/// The table of both families.
pub struct CompactTable {
    families: [Array<Set>; 2],
    mix: Mix,
    sets: u32,
}

impl CompactTable {
    /// Opens a table with this number of sets.
    pub fn new(maps: &Maps, sets: u32) -> anyhow::Result<Self> {
        let seeds = maps.array(SEEDS)?;
        let [v4, v6] = TABLES.map(|name| maps.array(name));
        Ok(Self {
            families: [v4?, v6?],
            mix: Mix::new([seeds.get(0)?, seeds.get(1)?]),
            sets,
        })
    }

    /// Returns the number of sets per family.
    pub const fn sets(&self) -> u32 {
        self.sets
    }

    pub fn clear(&self, region: Region) -> Result<()> {
        for family in &self.families {
            if let Some(mapped) = map(family, self.part(region, 0..region.sets()))? {
                for word in mapped.words() {
                    word.store(0, Relaxed);
                }
            }
        }
        Ok(())
    }

    /// Copies the usage of sources into the empty region of a limit that no packet uses yet. A
    /// larger region has room for all; in a smaller one, the sources with the highest usage stay,
    /// as in a full set.
    pub fn copy(&self, from: Region, to: &Limit) -> Result<()> {
        let origin = to.algorithm().debt_origin(clock::now());
        for family in &self.families {
            let of = |region: Region| map(family, self.part(region, 0..region.sets()));
            let (Some(from), Some(target)) = (of(from)?, of(to.region())?) else {
                continue;
            };
            copy(
                SharedSet::all(&from),
                SharedSet::all(&target),
                to.region(),
                origin,
            );
        }
        Ok(())
    }

    /// Writes words of sources to the region of a limit that no packet uses yet.
    pub fn put(&self, limit: &Limit, family: IpFamily, rows: &[(IpAddr, u64)]) -> Result<()> {
        let region = limit.region();
        let origin = limit.algorithm().debt_origin(clock::now());
        let part = self.part(region, 0..region.sets());
        let Some(mapped) = map(&self.families[family as usize], part)? else {
            return Ok(());
        };
        let sets = SharedSet::all(&mapped);
        for (source, word) in rows {
            let tag = match *source {
                IpAddr::V4(address) => self.mix.tag(Ipv4::from(address).key()),
                IpAddr::V6(address) => self.mix.tag(Ipv6::from(address).key()),
            };
            let place = region.set_of(tag) - region.first_set();
            if let Some(set) = sets.get(place as usize) {
                set.put(tag, *word, origin);
            }
        }
        Ok(())
    }

    /// Visits the used slots in some sets of a region, for one family.
    pub fn some_slots(
        &self,
        family: IpFamily,
        region: Region,
        sets: Range<u32>,
        visit: &mut impl FnMut(SlotRow),
    ) -> Result<()> {
        let mapped = map(&self.families[family as usize], self.part(region, sets))?;
        for set in mapped.iter().flat_map(SharedSet::all) {
            for slot in 0..SLOTS {
                let (tag, word) = (set.load(tag_at(slot)), set.load(word_at(slot)));
                if word != 0 {
                    visit(SlotRow { family, tag, word });
                }
            }
        }
        Ok(())
    }

    /// Returns the record that would judge a packet of the source.
    pub fn record<A: Address>(&self, address: A, policy: &Policy, now: Instant) -> Result<Record> {
        let tag = self.mix.tag(address.key());
        let family = &self.families[A::FAMILY as usize];
        let mut record = Record::default();
        for (word, limit) in record.words.iter_mut().zip(policy.limits()) {
            let place = limit.region().set_of(tag);
            if place < self.sets && !limit.is_log() {
                let set = SharedSet::from(family.get(place)?);
                *word = compact::word_for(&set, tag, limit, now);
            }
        }
        Ok(record)
    }

    /// Returns the positions of some sets of a region in the table.
    fn part(&self, region: Region, sets: Range<u32>) -> Range<u32> {
        let end = region.end().min(self.sets);
        let place = |set: u32| region.first_set().saturating_add(set).min(end);
        place(sets.start)..place(sets.end)
    }

    pub const fn key(&self, tag: u64) -> u64 {
        self.mix.key(tag)
    }
}

/// Maps some sets of a family. `None` if there are none.
fn map(family: &Array<Set>, sets: Range<u32>) -> Result<Option<Mapped>> {
    if sets.is_empty() {
        return Ok(None);
    }
    let words = sets.start as usize * WORDS..sets.end as usize * WORDS;
    family.map_words(words).map(Some)
}

/// A set in mapped memory, with tags and words alternating.
#[repr(transparent)]
struct SharedSet([AtomicU64; WORDS]);
const _: () = assert!(size_of::<SharedSet>() == size_of::<Set>());

impl AtomicWords for SharedSet {
    fn load(&self, index: u32) -> u64 {
        self.0[index as usize].load(Relaxed)
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        let answer = self.0[index as usize].compare_exchange(current, new, SeqCst, SeqCst);
        answer.map(drop)
    }
}

impl SharedSet {
    /// Writes a word to a free slot, or replaces the one with the least debt relative to `origin`,
    /// if that is less.
    fn put(&self, tag: u64, word: u64, origin: u64) {
        let slot = compact::least(self, origin);
        let held = self.load(word_at(slot));
        if held == 0 || held.wrapping_sub(origin) < word.wrapping_sub(origin) {
            self.0[2 * slot].store(tag, Relaxed);
            self.0[2 * slot + 1].store(word, Relaxed);
        }
    }

    /// Returns the sets of a part of a table.
    fn all(part: &Mapped) -> &[Self] {
        let (sets, _) = part.words().as_chunks::<WORDS>();
        // SAFETY: a set consists only of its words.
        unsafe { slice::from_raw_parts(sets.as_ptr().cast(), sets.len()) }
    }
}

impl From<Set> for SharedSet {
    fn from(set: Set) -> Self {
        let words: [u64; WORDS] = zerocopy::transmute!(set);
        Self(words.map(AtomicU64::new))
    }
}

/// Copies the slots of some sets to the empty ones of a region.
fn copy(from: &[SharedSet], targets: &[SharedSet], to: Region, origin: u64) {
    for set in from {
        for slot in 0..SLOTS {
            let (tag, word) = (set.load(tag_at(slot)), set.load(word_at(slot)));
            let place = to.set_of(tag) - to.first_set();
            if word != 0
                && let Some(target) = targets.get(place as usize)
            {
                target.put(tag, word, origin);
            }
        }
    }
}

/// Reads the table that the loader found.
pub fn read_held(held: &loader::PinnedTable) -> anyhow::Result<ExistingTable> {
    let mut policies = BTreeMap::new();
    let map = KernelMap::new(held.policies.try_clone()?)?;
    batch::for_each(&map, |index: u32, policy: Policy| {
        if policy != Policy::default() {
            policies.insert(index, policy);
        }
    })
    .context("reading the pinned policies")?;
    let sets = held.sets;
    Ok(ExistingTable { sets, policies })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_copied_into_a_larger_region_is_found_there() {
        let (small, large) = (Region::new(3, 4), Region::new(7, 64));
        let [from, to] = [small, large].map(|region| sets(region.sets()));
        let tag = |source: u64| source.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        // Half full, so that each source finds a slot.
        for source in 1..=16 {
            let place = small.set_of(tag(source)) - small.first_set();
            from[place as usize].put(tag(source), 1000 + source, 0);
        }
        copy(&from, &to, large, 0);
        for source in 1..=16 {
            let place = large.set_of(tag(source)) - large.first_set();
            let set = &to[place as usize];
            let words = (0..SLOTS).filter(|slot| set.load(tag_at(*slot)) == tag(source));
            let words: Vec<u64> = words.map(|slot| set.load(word_at(slot))).collect();
            assert_eq!(words, [1000 + source]);
        }
    }

    #[test]
    fn of_what_finds_no_room_in_a_smaller_region_the_most_is_kept() {
        let (large, small) = (Region::new(0, 8), Region::new(9, 1));
        let [from, to] = [large, small].map(|region| sets(region.sets()));
        for (source, set) in (1..=40).zip(from.iter().cycle()) {
            set.put(source, 1000 + source, 990);
        }
        copy(&from, &to, small, 990);
        let mut kept: Vec<u64> = (0..SLOTS).map(|slot| to[0].load(word_at(slot))).collect();
        kept.sort_unstable();
        assert_eq!(kept, (1033..=1040).collect::<Vec<u64>>());
    }

    fn sets(count: u32) -> Vec<SharedSet> {
        (0..count)
            .map(|_| SharedSet::from(Set::default()))
            .collect()
    }
}
