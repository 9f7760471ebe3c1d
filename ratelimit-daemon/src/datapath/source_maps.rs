//! The maps of sources, for reading: with their own descriptors, so that another thread can scan
//! them.

use std::{
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    ops::Range,
};

use aya::{
    Pod,
    maps::{MapData, PerCpuArray},
};
use ratelimit_common::{
    Address, Family, Instant, Ipv4, Ipv6, Policy, Record, Refusals, SourceKey,
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
    LogRow, Result, ScanPosition, SlotRow, SourceRow, SourceTables,
    batch::to_the_end,
    compact::CompactTable,
    logs::{LOGS, Logs, address_of},
    lru::{Records, Replaced},
    map_errors::failed,
    maps::{BySource, Elements, Keyed, Maps},
    refused_map::RefusedMap,
};
use crate::loader::{REFUSED_MAPS, Sizes};

/// Sources per read.
const SOURCES_AT_ONCE: usize = 4096;

/// The maps of both stores.
pub(super) struct SourceMaps {
    v4: FamilySources<Ipv4>,
    v6: FamilySources<Ipv6>,
    pub compact: Option<CompactTable>,
    logs: Logs,
    node: Elements<Record>,
    inserted: PerCpuArray<MapData, u64>,
    pub strikes: BySource<u64>,
    pub demands: Keyed<LogKey, Demand>,
}

impl SourceMaps {
    /// Opens the maps with these sizes.
    pub fn new(maps: &Maps, sizes: Sizes) -> anyhow::Result<Self> {
        let compact = sizes.sets.map(|sets| CompactTable::new(maps, sets));
        Ok(Self {
            v4: FamilySources::new(maps, "SOURCES_V4", REFUSED_MAPS[0])?,
            v6: FamilySources::new(maps, "SOURCES_V6", REFUSED_MAPS[1])?,
            compact: compact.transpose()?,
            logs: Logs::new(maps.descriptor(LOGS)?, sizes.logs),
            node: maps.elements("NODE")?,
            inserted: maps.open(INSERTED)?,
            strikes: maps.by_source(["STRIKES_V4", "STRIKES_V6"])?,
            demands: maps.keyed("DEMANDS")?,
        })
    }

    /// Returns the size of the sliding logs.
    pub const fn log_size(&self) -> LogSize {
        self.logs.size()
    }

    /// Returns the number of words of a record.
    pub fn record_words(&self) -> u32 {
        u32::try_from(self.v4.records.words()).unwrap_or(u32::MAX)
    }

    /// Copies the usage from records of another size.
    pub fn take_over(&self, replaced: &Replaced) -> Result<()> {
        let Replaced { v4, v6, logs } = replaced;
        v4.iter().try_for_each(|it| self.v4.records.take_over(it))?;
        v6.iter().try_for_each(|it| self.v6.records.take_over(it))?;
        logs.iter().try_for_each(|it| self.logs.take_over(it))
    }

    /// Returns the number of sources of a family that ever got state.
    pub fn inserted_of(&self, family: IpFamily) -> Result<u64> {
        let cpus = self.inserted.get(&inserted_index(family), 0);
        let cpus = cpus.map_err(failed("reading", INSERTED, 2))?;
        Ok(cpus.iter().sum())
    }

    /// Writes records of sources of a family.
    pub fn put_records(&self, family: IpFamily, rows: &[SourceRow]) -> Result<()> {
        match family {
            IpFamily::V4 => self.v4.put(rows),
            IpFamily::V6 => self.v6.put(rows),
        }
    }

    /// Writes sliding logs.
    pub fn put_logs(&self, rows: &[LogRow]) -> Result<()> {
        let rows = rows.iter().map(|row| {
            let key = log_key(row.source, row.scope, row.limit);
            (key, row.words.as_slice())
        });
        self.logs.put(rows)
    }
}

impl SourceTables for SourceMaps {
    fn count_others(&self) -> Result<Vec<(&'static str, u64)>> {
        let mut logs = 0;
        to_the_end(|place| self.logs.for_some(place, |_, _| logs += 1))?;
        Ok(vec![
            (LOGS, logs),
            self.strikes.v4.count()?,
            self.strikes.v6.count()?,
            self.demands.count()?,
        ])
    }

    fn is_compact(&self) -> bool {
        self.compact.is_some()
    }

    fn inserted(&self) -> Result<[u64; 2]> {
        let [v4, v6] = IpFamily::ALL.map(|family| self.inserted_of(family));
        Ok([v4?, v6?])
    }

    fn some_slots(
        &self,
        region: Region,
        sets: Range<u32>,
        visit: &mut dyn FnMut(SlotRow),
    ) -> Result<()> {
        let Some(table) = &self.compact else {
            return Ok(());
        };
        for family in IpFamily::ALL {
            // Mapping a table takes as long as reading it, so an unused one is skipped.
            if self.inserted_of(family)? > 0 {
                table.some_slots(family, region, sets.clone(), visit)?;
            }
        }
        Ok(())
    }

    fn source_of_tag(&self, family: IpFamily, tag: u64) -> IpAddr {
        let key = self.compact.as_ref().map_or(tag, |table| table.key(tag));
        match family {
            IpFamily::V4 => Ipv4::from_key(key).to_std(),
            IpFamily::V6 => Ipv6::from_key(key).to_std(),
        }
    }

    fn some_sources(
        &self,
        family: IpFamily,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(SourceRow),
    ) -> Result<ScanPosition> {
        match family {
            IpFamily::V4 => self.v4.for_some(place, count, visit),
            IpFamily::V6 => self.v6.for_some(place, count, visit),
        }
    }

    fn for_each_source(&self, visit: &mut dyn FnMut(SourceRow)) -> Result<()> {
        self.v4.for_each(&mut *visit)?;
        self.v6.for_each(visit)
    }

    fn record(&self, source: IpAddr, policy: &Policy, now: Instant) -> Result<Option<Record>> {
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

    fn log(&self, source: IpAddr, scope: u32, limit: u32) -> Result<Option<Vec<u64>>> {
        self.logs.words(log_key(source, scope, limit))
    }

    fn some_logs(
        &self,
        place: &ScanPosition,
        visit: &mut dyn FnMut(LogRow),
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

    fn total(&self, slot: u32) -> Result<Record> {
        self.node.get(slot)
    }

    fn refusals(&self, source: IpAddr) -> Result<Option<Refusals>> {
        match source {
            IpAddr::V4(address) => self.v4.refused.of(address.into()),
            IpAddr::V6(address) => self.v6.refused.of(address.into()),
        }
    }

    fn shared_refusals(&self, address: IpAddr, scope: u32) -> Result<Option<Refusals>> {
        let shared = match address {
            IpAddr::V4(address) => refused::shared(scope, Some(&Ipv4::from(address))),
            IpAddr::V6(address) => refused::shared(scope, Some(&Ipv6::from(address))),
        };
        let refusals = shared
            .map(|shared| self.v6.refused.of(shared))
            .transpose()?;
        Ok(refusals.map(Option::unwrap_or_default))
    }

    fn for_each_refused(&self, visit: &mut dyn FnMut(IpAddr, Refusals)) -> Result<()> {
        self.v4.refused.for_each(&mut *visit)?;
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
            records: Records::new(name, maps.descriptor(name)?)?,
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

    fn for_each(&self, mut visit: impl FnMut(SourceRow)) -> Result<()> {
        to_the_end(|place| self.for_some(place, SOURCES_AT_ONCE, &mut visit))
    }

    /// Visits some sources from a position.
    fn for_some(
        &self,
        place: &ScanPosition,
        count: usize,
        visit: &mut dyn FnMut(SourceRow),
    ) -> Result<ScanPosition> {
        let visit = |key, record| visit(row::<A>(key, record));
        self.records.for_some(place, count, visit)
    }
}

/// Counts the sources that ever got state, by family.
pub(super) const INSERTED: &str = "INSERTED";

/// Returns the index of a family in it.
pub(super) const fn inserted_index(family: IpFamily) -> u32 {
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
