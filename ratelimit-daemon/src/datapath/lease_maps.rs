//! The maps of this node's leases of shared limits, and of the demand for these limits.

use std::os::fd::AsFd;

use ratelimit_common::{
    Family,
    lease::{Demand, Lease, filter_of},
    source::LogKey,
    source_filter::Filter,
};

use super::{
    Kernel, LeaseTables, Result, batch,
    map_errors::unwritable,
    maps::{Elements, Keyed, Maps},
};

/// The leases, and the filter that precedes them and the demands.
pub(super) struct LeaseMaps {
    filters: Elements<Filter>,
    leases: Keyed<LogKey, Lease>,
}

impl LeaseMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            filters: maps.elements("FILTERS")?,
            leases: maps.keyed("LEASES")?,
        })
    }
}

impl LeaseTables for Kernel {
    fn set_leased_filters(&mut self, filters: &[Filter; 2]) -> Result<()> {
        for (family, filter) in [Family::Ipv4, Family::Ipv6].into_iter().zip(filters) {
            self.leases.filters.set(filter_of(family), *filter)?;
        }
        Ok(())
    }

    fn set_leases(&mut self, leases: &[(LogKey, Lease)]) -> Result<()> {
        let map = &self.leases.leases;
        let (keys, values): (Vec<_>, Vec<_>) = leases.iter().copied().unzip();
        batch::update(map.descriptor.as_fd(), &keys, &values).map_err(unwritable(map.name))
    }

    fn remove_leases(&mut self, keys: &[LogKey]) -> Result<()> {
        let map = &self.leases.leases;
        batch::delete(map.descriptor.as_fd(), keys).map_err(unwritable(map.name))
    }

    fn leases(&self) -> Result<Vec<(LogKey, Lease)>> {
        self.leases.leases.all()
    }

    fn demands(&self) -> Result<Vec<(LogKey, Demand)>> {
        self.sources.demands.all()
    }
}
