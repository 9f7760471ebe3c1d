//! The state of sources, of the node and of destinations, and refused sources. Another thread can
//! scan them.

use std::{
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    ops::Range,
};

use aya::Pod;
use ratelimit_common::{
    Address, Family, Instant, Ipv4, Ipv6, Limit, Policy, Record, Refusals, SourceKey,
    compact::Region,
    lease::Demand,
    refused::{self, Refused},
    source::LogKey,
};
use ratelimit_core::{
    ip_family::{IpAddress, IpFamily},
    log_size::LogSize,
};

use super::{
    LogRow, Result, ScanPosition, SlotRow, SourceRow,
    batch::to_the_end,
    compact::CompactTable,
    logs::{LOGS, Logs, address_of},
    lru::{Records, Replaced},
    maps::{Array, BySource, HashMap, Maps, PerCpuArray},
    refused::RefusedMap,
};
use crate::loader::{REFUSED_MAPS, SOURCE_MAPS};

/// Sources per read.
const SOURCES_AT_ONCE: usize = 4096;

/// Sets of a `compact` table per read: 2 MiB of each family. Mapping a whole table takes a
/// millisecond and more, in which no other thread can map memory.
pub const SETS_AT_ONCE: u32 = 1 << 14;

/// The tables of both stores.
pub struct SourceTables {
    v4: FamilySources<Ipv4>,
    v6: FamilySources<Ipv6>,
    compact: Option<CompactTable>,
    logs: Logs,
    node: Array<Record>,
    inserted: PerCpuArray<u64>,
    strikes: BySource<u64>,
    demands: HashMap<LogKey, Demand>,
}

impl SourceTables {
    /// Opens the tables with this number of sets in the `compact` table, if that is the store.
    pub(super) fn new(maps: &Maps, sets: Option<u32>) -> anyhow::Result<Self> {
        let compact = sets.map(|sets| CompactTable::new(maps, sets));
        Ok(Self {
            v4: FamilySources::new(maps, SOURCE_MAPS[0], REFUSED_MAPS[0])?,
            v6: FamilySources::new(maps, SOURCE_MAPS[1], REFUSED_MAPS[1])?,
            compact: compact.transpose()?,
            logs: Logs::new(maps.open(LOGS)?),
            node: maps.array("NODE")?,
            inserted: maps.per_cpu_array("INSERTED")?,
            strikes: maps.by_source(["STRIKES_V4", "STRIKES_V6"])?,
            demands: maps.hash_map("DEMANDS")?,
        })
    }

    /// Returns the size of the sliding logs.
    pub const fn log_size(&self) -> LogSize {
        self.logs.size()
    }

    /// Returns the words of a record in the store `lru`.
    pub fn record_words(&self) -> u32 {
        u32::try_from(self.v4.records.words()).unwrap_or(u32::MAX)
    }

    /// Returns the number of sets of the `compact` table, if that is the store.
    pub fn table_sets(&self) -> Option<u32> {
        self.compact.as_ref().map(CompactTable::sets)
    }

    /// Clears a region of that table, in both families.
    pub fn clear_region(&self, region: Region) -> Result<()> {
        let table = self.compact.as_ref();
        table.map_or(Ok(()), |table| table.clear(region))
    }

    /// Copies the usage in a region of that table to the empty one of a limit whose words have the
    /// same meaning, in both families. If the new one is too small, the highest usage is kept.
    pub fn copy_region(&self, from: Region, to: &Limit) -> Result<()> {
        let table = self.compact.as_ref();
        table.map_or(Ok(()), |table| table.copy(from, to))
    }

    /// Copies the usage from records of another size.
    pub(super) fn take_over(&self, replaced: &Replaced) -> Result<()> {
        let Replaced { v4, v6, logs } = replaced;
        v4.iter().try_for_each(|it| self.v4.records.take_over(it))?;
        v6.iter().try_for_each(|it| self.v6.records.take_over(it))?;
        logs.iter().try_for_each(|it| self.logs.take_over(it))
    }

    /// Restores records of sources of a family in the store `lru`. No program uses it yet.
    pub fn put_records(&self, family: IpFamily, rows: &[SourceRow]) -> Result<()> {
        match family {
            IpFamily::V4 => self.v4.put(rows)?,
            IpFamily::V6 => self.v6.put(rows)?,
        }
        self.count_inserted(family, rows.len())
    }

    /// Restores words of sources of a family in the region of a limit in the store `compact`. If
    /// the region is too small, the highest usage is kept.
    pub fn put_slots(&self, limit: &Limit, family: IpFamily, rows: &[(IpAddr, u64)]) -> Result<()> {
        if let Some(table) = &self.compact {
            table.put(limit, family, rows)?;
        }
        self.count_inserted(family, rows.len())
    }

    /// Restores sliding logs. Their words are the times, newest last.
    pub fn put_logs(&self, rows: &[LogRow]) -> Result<()> {
        let rows = rows.iter().map(|row| {
            let key = log_key(row.source, row.scope, row.limit);
            (key, row.words.as_slice())
        });
        self.logs.put(rows)
    }

    /// Counts sources as if packets on the first CPU had created them.
    fn count_inserted(&self, family: IpFamily, sources: usize) -> Result<()> {
        let index = inserted_index(family);
        let mut cpus = self.inserted.get(index)?;
        cpus[0] += sources as u64;
        self.inserted.set(index, &cpus)
    }

    /// Returns the number of entries of maps that only a scan can count, except those of sources,
    /// by name.
    pub fn count_others(&self) -> Result<Vec<(&'static str, u64)>> {
        let mut logs = 0;
        to_the_end(|place| self.logs.for_some(place, |_, _| logs += 1))?;
        Ok(vec![
            (LOGS, logs),
            self.strikes.v4.count()?,
            self.strikes.v6.count()?,
            self.demands.count()?,
        ])
    }

    /// Returns whether the state of sources is in a `compact` table.
    pub const fn is_compact(&self) -> bool {
        self.compact.is_some()
    }

    /// Returns the number of sources of IPv4 and IPv6 that ever got state.
    pub fn inserted(&self) -> Result<[u64; 2]> {
        let [v4, v6] = IpFamily::ALL.map(|family| self.inserted_of(family));
        Ok([v4?, v6?])
    }

    fn inserted_of(&self, family: IpFamily) -> Result<u64> {
        Ok(self.inserted.get(inserted_index(family))?.iter().sum())
    }

    /// Visits the used slots in some sets of a region of the `compact` table, in both families.
    pub fn some_slots(
        &self,
        region: Region,
        sets: Range<u32>,
        mut visit: impl FnMut(SlotRow),
    ) -> Result<()> {
        let Some(table) = &self.compact else {
            return Ok(());
        };
        for family in IpFamily::ALL {
            // Mapping a table takes as long as reading it, so an unused one is skipped.
            if self.inserted_of(family)? > 0 {
                table.some_slots(family, region, sets.clone(), &mut visit)?;
            }
        }
        Ok(())
    }

    /// Visits the used slots in all sets of a region.
    pub fn for_each_slot(&self, region: Region, mut visit: impl FnMut(SlotRow)) -> Result<()> {
        let mut firsts = (0..region.sets()).step_by(SETS_AT_ONCE as usize);
        firsts.try_for_each(|first| {
            let end = first.saturating_add(SETS_AT_ONCE);
            self.some_slots(region, first..end.min(region.sets()), &mut visit)
        })
    }

    /// Returns the source of a tag in the `compact` table.
    pub fn source_of_tag(&self, family: IpFamily, tag: u64) -> IpAddr {
        let key = self.compact.as_ref().map_or(tag, |table| table.key(tag));
        match family {
            IpFamily::V4 => Ipv4::from_key(key).to_std(),
            IpFamily::V6 => Ipv6::from_key(key).to_std(),
        }
    }

    /// Visits about `count` sources of a family from a position, except those in a `compact` table.
    /// Returns where to continue: the beginning after the last one.
    pub fn some_sources(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: impl FnMut(SourceRow),
    ) -> Result<ScanPosition> {
        match family {
            IpFamily::V4 => self.v4.for_some(place, count, visit),
            IpFamily::V6 => self.v6.for_some(place, count, visit),
        }
    }

    /// Visits the state of all sources in all scopes, except those in a `compact` table.
    pub fn for_each_source(&self, mut visit: impl FnMut(SourceRow)) -> Result<()> {
        for family in IpFamily::ALL {
            to_the_end(|place| self.some_sources(family, place, SOURCES_AT_ONCE, &mut visit))?;
        }
        Ok(())
    }

    /// Returns the state of a source, whose address is cut to the configured prefix, under a
    /// policy. For a source without a slot in a `compact` table, it is what would judge a packet at
    /// `now`.
    pub fn record(&self, source: IpAddr, policy: &Policy, now: Instant) -> Result<Option<Record>> {
        if let Some(table) = &self.compact {
            let record = match source {
                IpAddr::V4(address) => table.record(Ipv4::from(address), policy, now),
                IpAddr::V6(address) => table.record(Ipv6::from(address), policy, now),
            };
            return record.map(Some);
        }
        let scope = policy.scope();
        match source {
            IpAddr::V4(address) => self.v4.record(address.into(), scope),
            IpAddr::V6(address) => self.v6.record(address.into(), scope),
        }
    }

    /// Returns the words of the sliding log of a limit for a source in a scope. `None` if nothing
    /// was logged.
    pub fn log(&self, source: IpAddr, scope: u32, limit: u32) -> Result<Option<Vec<u64>>> {
        self.logs.words(log_key(source, scope, limit))
    }

    /// Visits some sliding logs of both families from a position.
    pub fn some_logs(
        &self,
        place: &ScanPosition,
        mut visit: impl FnMut(LogRow),
    ) -> Result<ScanPosition> {
        self.logs.for_some(place, |key, words| {
            visit(LogRow {
                source: address_of(&key),
                scope: key.scope(),
                limit: key.limit(),
                words: words.to_vec(),
            });
        })
    }

    /// Returns the state of a policy of the node or of a destination.
    pub fn total(&self, slot: u32) -> Result<Record> {
        self.node.get(slot)
    }

    /// Replaces the state of a policy of the node or of a destination that is not in force.
    pub fn set_total(&self, slot: u32, record: Record) -> Result<()> {
        self.node.set(slot, record)
    }

    /// Returns the strikes of a source, as a word of [`BanRule`](ratelimit_common::BanRule).
    pub fn strikes(&self, source: IpAddr) -> Result<u64> {
        Ok(self.strikes.get(source)?.unwrap_or_default())
    }

    /// Returns how often a source was refused, if that is known.
    pub fn refusals(&self, source: IpAddr) -> Result<Option<Refusals>> {
        match source {
            IpAddr::V4(address) => self.v4.refused.of(address.into()),
            IpAddr::V6(address) => self.v6.refused.of(address.into()),
        }
    }

    /// Returns how often limits of this scope refused packets of an address that many sources
    /// share, if that is counted and known.
    pub fn shared_refusals(&self, address: IpAddr, scope: u32) -> Result<Option<Refusals>> {
        let shared = match address {
            IpAddr::V4(address) => refused::shared(scope, Some(&Ipv4::from(address))),
            IpAddr::V6(address) => refused::shared(scope, Some(&Ipv6::from(address))),
        };
        let refusals = shared
            .map(|shared| self.v6.refused.of(shared))
            .transpose()?;
        Ok(refusals.map(Option::unwrap_or_default))
    }

    /// Visits the sources that were refused last, as many as are stored.
    pub fn for_each_refused(&self, mut visit: impl FnMut(IpAddr, Refusals)) -> Result<()> {
        self.v4.refused.for_each(&mut visit)?;
        self.v6.refused.for_each(|address, refusals| {
            let is_shared = |address: Ipv6Addr| refused::is_shared(&address.into());
            if !matches!(address, IpAddr::V6(address) if is_shared(address)) {
                visit(address, refusals);
            }
        })
    }
}

struct FamilySources<A>
where
    A: IpAddress + Hash + Pod,
    SourceKey<A>: Pod,
    Refused<A>: Pod,
{
    records: Records<A>,
    refused: RefusedMap<A>,
}

impl<A> FamilySources<A>
where
    A: IpAddress + Hash + Pod,
    SourceKey<A>: Pod,
    Refused<A>: Pod,
{
    fn new(maps: &Maps, name: &'static str, refused: &'static str) -> anyhow::Result<Self> {
        Ok(Self {
            records: Records::new(name, maps.open(name)?)?,
            refused: RefusedMap::new(maps, refused)?,
        })
    }

    fn record(&self, source: A, scope: u32) -> Result<Option<Record>> {
        self.records.get(&SourceKey::new(source, scope))
    }

    fn put(&self, rows: &[SourceRow]) -> Result<()> {
        let rows = rows.iter().filter_map(|row| {
            let address = A::of(row.source)?;
            Some((SourceKey::new(address, row.scope), row.record))
        });
        self.records.put(rows)
    }

    /// Visits some sources from a position.
    fn for_some(
        &self,
        place: &ScanPosition,
        count: usize,
        mut visit: impl FnMut(SourceRow),
    ) -> Result<ScanPosition> {
        let visit = |key, record| visit(row::<A>(key, record));
        self.records.for_some(place, count, visit)
    }
}

/// Returns the index of the number of sources of a family that ever got state.
const fn inserted_index(family: IpFamily) -> u32 {
    match family {
        IpFamily::V4 => Family::Ipv4 as u32,
        IpFamily::V6 => Family::Ipv6 as u32,
    }
}

fn log_key(source: IpAddr, scope: u32, limit: u32) -> LogKey {
    let key = match source {
        IpAddr::V4(address) => LogKey::new(&SourceKey::<Ipv4>::new(address.into(), scope)),
        IpAddr::V6(address) => LogKey::new(&SourceKey::<Ipv6>::new(address.into(), scope)),
    };
    key.of_limit(limit)
}

fn row<A: IpAddress>(key: SourceKey<A>, record: Record) -> SourceRow {
    SourceRow {
        source: key.address().to_std(),
        scope: key.scope(),
        record,
    }
}
