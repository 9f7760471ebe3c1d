//! The maps of packets that matched an entry of the lists.

use std::{collections::BTreeMap, ops::Range};

use aya::maps::{MapData, PerCpuArray, PerCpuValues};
use ratelimit_common::{
    DropReason, Family, PassReason, Verdict,
    layout::{COUNTERS, Counter, INTERFACES_MAX, SLOTS_MAX, counter_index},
};

use super::{
    EntryCounterTables, Kernel, Result,
    cpu_counters::CpuCounters,
    kernel::at,
    map_errors::{failed, unreadable, unwritable},
    maps::{Elements, Maps},
};

const ENTRY_COUNTERS: &str = "ENTRY_COUNTERS";

/// Both maps.
pub(super) struct EntryCounterMaps {
    counters: PerCpuArray<MapData, Counter>,
    sums: CpuCounters,
    owners: Elements<u64>,
}

impl EntryCounterMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            counters: maps.open(ENTRY_COUNTERS)?,
            sums: CpuCounters::new(maps, ENTRY_COUNTERS)?,
            owners: maps.elements("COUNTER_OWNERS")?,
        })
    }
}

impl EntryCounterTables for Kernel {
    fn counter_owners(&self) -> Result<BTreeMap<u16, u64>> {
        let owners = self.entry_counters.owners.some(0..SLOTS_MAX)?;
        let owners = (0..=u16::MAX).zip(owners);
        Ok(owners.filter(|(_, owner)| *owner != 0).collect())
    }

    fn set_counter_owner(&mut self, slot: u16, owner: u64) -> Result<()> {
        self.entry_counters.owners.set(slot.into(), owner)
    }

    fn entry_counters(&self, slots: Range<u32>) -> Result<Vec<Counter>> {
        let sums = self.entry_counters.sums.sums(slots);
        sums.map_err(unreadable(ENTRY_COUNTERS))
    }

    fn judged(&self) -> Result<Counter> {
        let counts = self.verdicts_in(0..COUNTERS)?;
        let mut sum = Counter::default();
        for slot in 0..INTERFACES_MAX {
            for family in [Family::Ipv4, Family::Ipv6] {
                for verdict in verdicts_of_limits() {
                    sum = sum.plus(at(&counts, counter_index(slot, family, verdict)));
                }
            }
        }
        Ok(sum)
    }

    /// Makes it the count of the first CPU, and that of the others nothing.
    fn set_entry_counter(&mut self, slot: u16, count: Counter) -> Result<()> {
        let map = &mut self.entry_counters.counters;
        let error = || failed("writing", ENTRY_COUNTERS, SLOTS_MAX);
        let index = u32::from(slot);
        let mut counts = map.get(&index, 0).map_err(error())?.to_vec();
        counts.fill(Counter::default());
        counts[0] = count;
        let counts = PerCpuValues::try_from(counts).map_err(unwritable(ENTRY_COUNTERS))?;
        map.set(index, counts, 0).map_err(error())
    }
}

/// The verdicts of packets that a policy judged.
fn verdicts_of_limits() -> impl Iterator<Item = Verdict> {
    let passed = [
        PassReason::Conforming,
        PassReason::Unlimited,
        PassReason::NewSources,
        PassReason::Exempt,
        PassReason::Established,
    ];
    let refused = [
        DropReason::Limited,
        DropReason::Contended,
        DropReason::NoState,
        DropReason::AggregateLimited,
        DropReason::NodeLimited,
        DropReason::NewSources,
        DropReason::Class,
        DropReason::Policy,
    ];
    let refused = refused
        .into_iter()
        .flat_map(|reason| [Verdict::Drop(reason), Verdict::Observe(reason)]);
    passed.into_iter().map(Verdict::Pass).chain(refused)
}
