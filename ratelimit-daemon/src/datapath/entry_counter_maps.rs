//! The maps of packets that matched an entry of the lists.

use std::{
    collections::BTreeMap,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{MapData, PerCpuArray, PerCpuValues};
use ratelimit_common::layout::{Counter, SLOTS_MAX};

use super::{
    DatapathError, batch,
    cpu_counters::CpuCounters,
    family_maps::{failed, unreadable, unwritable},
    maps::Maps,
};

const ENTRY_COUNTERS: &str = "ENTRY_COUNTERS";
const OWNERS: &str = "COUNTER_OWNERS";

/// Both maps.
pub(super) struct EntryCounterMaps {
    counters: PerCpuArray<MapData, Counter>,
    sums: CpuCounters,
    owners: OwnedFd,
}

impl EntryCounterMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            counters: maps.open(ENTRY_COUNTERS)?,
            sums: CpuCounters::new(maps, ENTRY_COUNTERS)?,
            owners: maps.descriptor(OWNERS)?,
        })
    }

    pub fn owners(&self) -> Result<BTreeMap<u16, u64>, DatapathError> {
        let mut owners = BTreeMap::new();
        let answer = batch::for_each(self.owners.as_fd(), |slot: u32, owner: u64| {
            if let Some(slot) = u16::try_from(slot).ok().filter(|_| owner != 0) {
                owners.insert(slot, owner);
            }
        });
        answer.map_err(unreadable(OWNERS))?;
        Ok(owners)
    }

    pub fn set_owner(&self, slot: u16, owner: u64) -> Result<(), DatapathError> {
        let answer = batch::update(self.owners.as_fd(), &[u32::from(slot)], &[owner]);
        answer.map_err(unwritable(OWNERS))
    }

    /// The counts of slots that stand side by side.
    pub fn range(&self, slots: Range<u32>) -> Result<Vec<Counter>, DatapathError> {
        let sums = self.sums.sums(slots);
        sums.map_err(unreadable(ENTRY_COUNTERS))
    }

    pub fn get(&self, slot: u16) -> Result<Counter, DatapathError> {
        let counts = self.counters.get(&slot.into(), 0);
        let counts = counts.map_err(failed("reading", ENTRY_COUNTERS, SLOTS_MAX))?;
        Ok(counts
            .iter()
            .copied()
            .fold(Counter::default(), Counter::plus))
    }

    /// Makes it the count of the first CPU, and that of the others nothing.
    pub fn set(&mut self, slot: u16, count: Counter) -> Result<(), DatapathError> {
        let error = || failed("writing", ENTRY_COUNTERS, SLOTS_MAX);
        let index = u32::from(slot);
        let mut counts = self.counters.get(&index, 0).map_err(error())?.to_vec();
        counts.fill(Counter::default());
        counts[0] = count;
        let counts = PerCpuValues::try_from(counts).map_err(unwritable(ENTRY_COUNTERS))?;
        self.counters.set(index, counts, 0).map_err(error())
    }
}
