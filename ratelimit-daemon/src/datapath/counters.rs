//! Counts of packets by verdict, and of packets that matched list entries, by the slots in these
//! entries.

use std::{collections::BTreeMap, ops::Range};

use ratelimit_common::{
    DropReason, Family, PassReason, Verdict,
    layout::{COUNTERS, Counter, INTERFACES_MAX, SLOTS_MAX, counter_index},
};

use super::{
    CounterRow, Result,
    maps::{Array, Maps, PerCpuArray},
};

/// The counters, and the owners of their slots.
pub struct CounterTables {
    verdicts: PerCpuArray<Counter>,
    entries: PerCpuArray<Counter>,
    owners: Array<u64>,
}

impl CounterTables {
    pub(super) fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            verdicts: maps.per_cpu_array("VERDICTS")?,
            entries: maps.per_cpu_array("ENTRY_COUNTERS")?,
            owners: maps.array("COUNTER_OWNERS")?,
        })
    }

    /// Returns the owner of each used slot as a hash. The first slot has the seed of the hashes.
    pub fn owners(&self) -> Result<BTreeMap<u16, u64>> {
        let owners = (0..=u16::MAX).zip(self.owners.some(0..SLOTS_MAX)?);
        Ok(owners.filter(|(_, owner)| *owner != 0).collect())
    }

    /// Sets the owner of a slot.
    pub fn set_owner(&mut self, slot: u16, owner: u64) -> Result<()> {
        self.owners.set(slot.into(), owner)
    }

    /// Returns the counts of consecutive slots.
    pub fn of_slots(&self, slots: Range<u32>) -> Result<Vec<Counter>> {
        self.entries.sums(slots, Counter::plus)
    }

    /// Returns the count of a slot.
    pub fn of_slot(&self, slot: u16) -> Result<Counter> {
        let slot = u32::from(slot);
        let counts = self.of_slots(slot..slot + 1)?;
        Ok(counts.first().copied().unwrap_or_default())
    }

    /// Replaces the count of a slot that no packet uses: makes it the count of the first CPU, and
    /// that of the others nothing.
    pub fn set(&mut self, slot: u16, count: Counter) -> Result<()> {
        let mut counts = self.entries.get(slot.into())?;
        counts.fill(Counter::default());
        counts[0] = count;
        self.entries.set(slot.into(), &counts)
    }

    /// Returns the packets that limits have judged on all interfaces, including former ones.
    pub fn judged(&self) -> Result<Counter> {
        let counts = self.verdicts.sums(0..COUNTERS, Counter::plus)?;
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

    /// Returns the nonzero counters of the interfaces with these slots.
    pub fn of_interfaces(&self, slots: impl Iterator<Item = u32>) -> Result<Vec<CounterRow>> {
        let mut rows = Vec::new();
        for slot in slots {
            let counts = self
                .verdicts
                .sums(counter_index_range(slot), Counter::plus)?;
            let kinds = Family::ALL
                .into_iter()
                .flat_map(|family| Verdict::all().map(move |verdict| (family, verdict)));
            for (family, verdict) in kinds {
                let count = at(&counts, counter_index(0, family, verdict));
                if count.packets > 0 {
                    rows.push(CounterRow {
                        interface: slot,
                        family,
                        verdict,
                        count,
                    });
                }
            }
        }
        Ok(rows)
    }
}

/// Returns the indices of the counters of an interface.
const fn counter_index_range(slot: u32) -> Range<u32> {
    const ROWS: u32 = COUNTERS / INTERFACES_MAX;
    let first = slot % INTERFACES_MAX * ROWS;
    first..first + ROWS
}

fn at(counts: &[Counter], index: u32) -> Counter {
    counts.get(index as usize).copied().unwrap_or_default()
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
