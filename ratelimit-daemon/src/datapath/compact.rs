//! The `compact` table, mapped into the memory of the daemon: it is read without asking the kernel.

use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    os::fd::AsFd,
    path::Path,
    slice,
    sync::atomic::{
        AtomicU64,
        Ordering::{Relaxed, SeqCst},
    },
};

use anyhow::Context;
use aya::maps::{Array, MapData, MapInfo};
use aya_obj::Object;
use ratelimit_common::{
    Address, Instant, Policy, Record,
    compact::{self, Mix, Region, SLOTS, Set, Slots},
};

use super::{IpFamily, Pins, SlotRow, batch, load::Maps, mapped::Mapped};

/// The tables of a family each.
pub const TABLES: [&str; 2] = ["COMPACT_V4", "COMPACT_V6"];

const SEEDS: &str = "COMPACT_SEEDS";
const POLICIES: &str = "POLICIES";

/// What a program reads and writes with the table: pins that are made anew with it, so that a program which still runs on the
/// old table does not read of regions in the new one. The daemon fills them before the new program runs.
const WITH_TABLES: [&str; 8] = [
    "SETTINGS",
    POLICIES,
    "AGGREGATES",
    "NODE",
    "GUARD_V4",
    "GUARD_V6",
    "LISTS_V4",
    "LISTS_V6",
];

/// The table of both families.
pub struct CompactTable {
    families: [Mapped; 2],
    mix: Mix,
    sets: u32,
}

impl CompactTable {
    /// Maps a table of `sets` sets.
    pub fn new(maps: &mut Maps<'_>, sets: u32) -> anyhow::Result<Self> {
        let seeds: Array<MapData, u64> = maps.take(SEEDS)?;
        let [v4, v6] = TABLES.map(|name| {
            let descriptor = maps.descriptor(name)?;
            Mapped::new(descriptor.as_fd(), sets as usize * WORDS)
                .with_context(|| format!("mapping {name}"))
        });
        Ok(Self {
            families: [v4?, v6?],
            mix: Mix::new([seeds.get(&0, 0)?, seeds.get(&1, 0)?]),
            sets,
        })
    }

    /// The sets that each family has.
    pub const fn sets(&self) -> u32 {
        self.sets
    }

    /// Empties a region.
    pub fn clear(&self, region: Region) {
        for family in &self.families {
            for set in SharedSet::of_region(family, region) {
                for word in &set.0 {
                    word.store(0, Relaxed);
                }
            }
        }
    }

    /// Shows the slots of some sets of a region that are not empty.
    pub fn some_slots(&self, region: Region, sets: Range<u32>, visit: &mut dyn FnMut(SlotRow)) {
        for (family, mapped) in IpFamily::ALL.into_iter().zip(&self.families) {
            let all = SharedSet::of_region(mapped, region);
            let end = all.len().min(sets.end as usize);
            for set in all.get(sets.start as usize..end).unwrap_or_default() {
                for slot in 0..SLOTS {
                    let (tag, word) = (set.tag(slot), set.word(slot));
                    if word != 0 {
                        visit(SlotRow { family, tag, word });
                    }
                }
            }
        }
    }

    /// What a packet of the source with this address would be judged by.
    pub fn record<A: Address>(&self, address: A, policy: &Policy, now: Instant) -> Record {
        let tag = self.mix.tag(address.key());
        let mut record = Record::default();
        for (word, limit) in record.words.iter_mut().zip(policy.limits()) {
            let family = &self.families[A::FAMILY as usize];
            if let Some(set) = SharedSet::all(family).get(limit.region().set_of(tag) as usize)
                && !limit.is_log()
            {
                *word = compact::word_for(set, tag, limit, now);
            }
        }
        record
    }

    /// The key of a tag.
    pub const fn key(&self, tag: u64) -> u64 {
        self.mix.key(tag)
    }
}

/// The words of a set.
const WORDS: usize = 2 * SLOTS;

/// A set in mapped memory: tags and words in turns.
#[repr(transparent)]
struct SharedSet([AtomicU64; WORDS]);
const _: () = assert!(size_of::<SharedSet>() == size_of::<Set>());

impl Slots for SharedSet {
    fn tag(&self, slot: usize) -> u64 {
        self.0[2 * slot].load(Relaxed)
    }

    fn exchange_tag(&self, slot: usize, current: u64, new: u64) -> Result<(), u64> {
        let answer = self.0[2 * slot].compare_exchange(current, new, SeqCst, SeqCst);
        answer.map(drop)
    }

    fn word(&self, slot: usize) -> u64 {
        self.0[2 * slot + 1].load(Relaxed)
    }

    fn exchange_word(&self, slot: usize, current: u64, new: u64) -> Result<(), u64> {
        let answer = self.0[2 * slot + 1].compare_exchange(current, new, SeqCst, SeqCst);
        answer.map(drop)
    }
}

impl SharedSet {
    /// The sets of a table in mapped memory.
    fn all(table: &Mapped) -> &[Self] {
        let (sets, _) = table.words().as_chunks::<WORDS>();
        // SAFETY: a set is nothing but its words.
        unsafe { slice::from_raw_parts(sets.as_ptr().cast(), sets.len()) }
    }

    /// Those of a region.
    fn of_region(table: &Mapped, region: Region) -> &[Self] {
        let range = region.first_set() as usize..region.end() as usize;
        Self::all(table).get(range).unwrap_or_default()
    }
}

/// Removes what was pinned with a table of another size.
///
/// # Errors
///
/// When a pin cannot be removed.
pub fn remove_mismatched(object: &Object, pins: &Pins) -> anyhow::Result<()> {
    let fits = |name: &&str| {
        let wanted = object.maps.get(*name);
        wanted.is_some_and(|wanted| !pins.map(name).exists() || pins.has(name, wanted))
    };
    if TABLES.iter().all(fits) {
        return Ok(());
    }
    pins.remove_maps(&WITH_TABLES)
}

/// A table that is pinned: its sets, and the policies that have regions in it.
pub struct HeldTable {
    /// Of each family.
    pub sets: u32,
    /// By index.
    pub policies: BTreeMap<u32, Policy>,
}

/// The table that is pinned under `root`; `None` when there is none, or another store was used.
///
/// # Errors
///
/// When the pins cannot be read.
pub fn held_table(root: &Path) -> anyhow::Result<Option<HeldTable>> {
    let pins = Pins::open(root)?;
    let path = pins.map(POLICIES);
    let [v4, v6] = TABLES.map(|name| MapInfo::from_pin(pins.map(name)));
    let sets = match (v4, v6) {
        (Ok(v4), Ok(v6)) if v4.max_entries() == v6.max_entries() => v4.max_entries(),
        _ => return Ok(None),
    };
    if sets == 1 || !path.exists() {
        return Ok(None);
    }
    let opening = || format!("opening {}", path.display());
    let map = MapData::from_pin(&path).with_context(opening)?;
    let mut policies = BTreeMap::new();
    batch::for_each(map.fd().as_fd(), |index: u32, policy: Policy| {
        if policy != Policy::default() {
            policies.insert(index, policy);
        }
    })
    .with_context(opening)?;
    Ok(Some(HeldTable { sets, policies }))
}

/// The seeds of the tags: those of the table that is pinned, or new ones.
///
/// # Errors
///
/// When the pinned ones cannot be read, or the kernel has no random numbers.
pub fn seeds(pins: &Pins) -> anyhow::Result<[u64; 2]> {
    let path = pins.map(SEEDS);
    if path.exists() {
        let map =
            MapData::from_pin(&path).with_context(|| format!("opening {}", path.display()))?;
        let map: Array<MapData, u64> = Array::try_from(aya::maps::Map::Array(map))?;
        return Ok([map.get(&0, 0)?, map.get(&1, 0)?]);
    }
    let mut seeds = [0u64; 2];
    // SAFETY: the buffer is as long as is said.
    let filled = unsafe { libc::getrandom(seeds.as_mut_ptr().cast(), size_of_val(&seeds), 0) };
    anyhow::ensure!(
        usize::try_from(filled) == Ok(size_of_val(&seeds)),
        "drawing random seeds: {}",
        io::Error::last_os_error()
    );
    Ok(seeds)
}

/// Keeps the seeds for as long as the table.
///
/// # Errors
///
/// When the kernel refuses.
pub fn keep_seeds(maps: &mut aya::Ebpf, seeds: [u64; 2]) -> anyhow::Result<()> {
    let map = maps.map_mut(SEEDS).context("the BPF object has no seeds")?;
    let mut map = Array::<_, u64>::try_from(map)?;
    for (index, seed) in (0..).zip(seeds) {
        map.set(index, seed, 0)?;
    }
    Ok(())
}
