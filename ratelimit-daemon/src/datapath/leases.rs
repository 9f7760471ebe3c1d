//! This node's leases of shared limits, and the demand for these limits.

use ratelimit_common::{
    Family,
    lease::{Demand, Lease, filter_of},
    source::LogKey,
    source_filter::Filter,
};

use super::{
    Result,
    maps::{Array, HashMap, Maps},
};

/// The leases, the filter that precedes them, and the demands.
pub struct LeaseTables {
    filters: Array<Filter>,
    leases: HashMap<LogKey, Lease>,
    demands: HashMap<LogKey, Demand>,
}

impl LeaseTables {
    pub(super) fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            filters: maps.array("FILTERS")?,
            leases: maps.hash_map("LEASES")?,
            demands: maps.hash_map("DEMANDS")?,
        })
    }

    /// Sets the keys for which the program looks for leases and demands, by family. The program
    /// adds refused keys.
    pub fn set_filters(&mut self, filters: &[Filter; 2]) -> Result<()> {
        for (family, filter) in [Family::Ipv4, Family::Ipv6].into_iter().zip(filters) {
            self.filters.set(filter_of(family), *filter)?;
        }
        Ok(())
    }

    /// Writes leases, replacing those of the same keys.
    pub fn set(&mut self, leases: &[(LogKey, Lease)]) -> Result<()> {
        let (keys, values): (Vec<_>, Vec<_>) = leases.iter().copied().unzip();
        self.leases.set_all(&keys, &values)
    }

    /// Removes leases; missing ones are no error.
    pub fn remove(&mut self, keys: &[LogKey]) -> Result<()> {
        self.leases.remove_all(keys)
    }

    /// Returns all leases.
    pub fn all(&self) -> Result<Vec<(LogKey, Lease)>> {
        self.leases.all()
    }

    /// Returns the demand for shared limits since their source was first refused or got a lease.
    pub fn demands(&self) -> Result<Vec<(LogKey, Demand)>> {
        self.demands.all()
    }
}
