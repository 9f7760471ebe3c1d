//! A datapath in memory, for tests of the control plane.

use std::{collections::BTreeMap, net::IpAddr};

use ratelimit_common::{ListEntry, Policy, Record, Settings, Strikes, guard::Guard};

use super::{
    CounterRow, Datapath, DatapathError, Detachment, InterfaceState, IpFamily, SourceRow, Totals,
};
use crate::{api::MapStatus, config::Interface, prefix::Prefix};

/// The tables, open to look into.
#[derive(Debug, Default)]
pub struct Memory {
    /// The entries of both families.
    pub entries: BTreeMap<Prefix, ListEntry>,
    /// The most entries; 0 stands for no end.
    pub entries_max: usize,
    /// The policies that are not empty.
    pub policies: BTreeMap<u32, Policy>,
    /// What holds for all packets.
    pub settings: Settings,
    /// The guards.
    pub guards: BTreeMap<IpFamily, Guard>,
    /// The state of sources.
    pub records: BTreeMap<(IpAddr, u32), Record>,
    /// Sources that were refused.
    pub strikes: BTreeMap<IpAddr, Strikes>,
}

impl Datapath for Memory {
    fn set_policy(&mut self, index: u32, policy: &Policy) -> Result<(), DatapathError> {
        self.policies.insert(index, *policy);
        Ok(())
    }

    fn set_settings(&mut self, settings: Settings) -> Result<(), DatapathError> {
        self.settings = settings;
        Ok(())
    }

    fn settings(&self) -> Result<Settings, DatapathError> {
        Ok(self.settings)
    }

    fn set_entry(&mut self, prefix: Prefix, entry: ListEntry) -> Result<(), DatapathError> {
        let full = self.entries_max != 0 && self.entries.len() >= self.entries_max;
        if full && !self.entries.contains_key(&prefix) {
            let capacity = u32::try_from(self.entries_max).unwrap_or(u32::MAX);
            return Err(DatapathError::Full {
                map: "ADDRESSES_V4",
                capacity,
            });
        }
        self.entries.insert(prefix, entry);
        Ok(())
    }

    fn remove_entry(&mut self, prefix: Prefix) -> Result<(), DatapathError> {
        self.entries.remove(&prefix);
        Ok(())
    }

    fn set_guard(&mut self, family: IpFamily, guard: &Guard) -> Result<(), DatapathError> {
        self.guards.insert(family, *guard);
        Ok(())
    }

    fn entries(&self) -> Result<Vec<(Prefix, ListEntry)>, DatapathError> {
        Ok(self
            .entries
            .iter()
            .map(|(prefix, entry)| (*prefix, *entry))
            .collect())
    }

    fn policies(&self) -> Result<Vec<(u32, Policy)>, DatapathError> {
        Ok(self
            .policies
            .iter()
            .map(|(index, policy)| (*index, *policy))
            .collect())
    }

    fn counters(&self) -> Result<Vec<CounterRow>, DatapathError> {
        Ok(Vec::new())
    }

    fn record(&self, source: IpAddr, scope: u32) -> Result<Option<Record>, DatapathError> {
        Ok(self.records.get(&(source, scope)).copied())
    }

    fn strikes(&self, source: IpAddr) -> Result<Option<Strikes>, DatapathError> {
        Ok(self.strikes.get(&source).copied())
    }

    fn for_each_struck(&self, visit: &mut dyn FnMut(IpAddr, Strikes)) -> Result<(), DatapathError> {
        self.strikes
            .iter()
            .for_each(|(source, strikes)| visit(*source, *strikes));
        Ok(())
    }

    fn for_each_source(&self, visit: &mut dyn FnMut(SourceRow)) -> Result<(), DatapathError> {
        for (&(source, scope), &record) in &self.records {
            visit(SourceRow {
                source,
                scope,
                record,
            });
        }
        Ok(())
    }

    fn totals(&self) -> Result<Totals, DatapathError> {
        Ok(Totals::default())
    }

    fn maps(&self) -> &[MapStatus] {
        &[]
    }

    fn attached(&self) -> Vec<(Interface, u32, Option<InterfaceState>)> {
        Vec::new()
    }

    fn attach(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn detach(&mut self) -> anyhow::Result<Detachment> {
        Ok(Detachment::default())
    }
}
