//! The maps of what this node may admit of limits that nodes share, and of what packets asked of them.

use std::os::fd::AsFd;

use ratelimit_common::{
    Family,
    detected::Filter,
    lease::{Demand, Lease, filter_of},
    source::LogKey,
};

use super::{
    DatapathError, batch,
    family_maps::unwritable,
    maps::{Elements, Keyed, Maps},
};

/// Both maps, and the filter in front of them.
pub(super) struct LeaseMaps {
    filters: Elements<Filter>,
    leases: Keyed<LogKey, Lease>,
    demands: Keyed<LogKey, Demand>,
}

impl LeaseMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            filters: maps.elements("FILTERS")?,
            leases: maps.keyed("LEASES")?,
            demands: maps.keyed("DEMANDS")?,
        })
    }

    pub fn set_filters(&mut self, filters: &[Filter; 2]) -> Result<(), DatapathError> {
        for (family, filter) in [Family::Ipv4, Family::Ipv6].into_iter().zip(filters) {
            self.filters.set(filter_of(family), *filter)?;
        }
        Ok(())
    }

    pub fn set(&self, leases: &[(LogKey, Lease)]) -> Result<(), DatapathError> {
        let (keys, values): (Vec<_>, Vec<_>) = leases.iter().copied().unzip();
        let answer = batch::update(self.leases.descriptor.as_fd(), &keys, &values);
        answer.map_err(unwritable(self.leases.name))
    }

    pub fn remove(&self, keys: &[LogKey]) -> Result<(), DatapathError> {
        let answer = batch::delete(self.leases.descriptor.as_fd(), keys);
        answer.map_err(unwritable(self.leases.name))
    }

    pub fn all(&self) -> Result<Vec<(LogKey, Lease)>, DatapathError> {
        self.leases.all()
    }

    pub fn demands(&self) -> Result<Vec<(LogKey, Demand)>, DatapathError> {
        self.demands.all()
    }
}
