//! The maps of what this node may admit of limits that nodes share, and of what packets asked of them.

use std::os::fd::{AsFd, OwnedFd};

use aya::maps::{Array, MapData};
use ratelimit_common::{
    Family,
    detected::Filter,
    layout::FILTERS_MAX,
    lease::{Demand, Lease, filter_of},
    source::LogKey,
};

use super::{
    DatapathError, batch,
    family_maps::{failed, unreadable},
    maps::Maps,
};

const LEASES: &str = "LEASES";
const DEMANDS: &str = "DEMANDS";
const FILTERS: &str = "FILTERS";

/// Both maps, and the filter in front of them.
pub(super) struct LeaseMaps {
    filters: Array<MapData, Filter>,
    leases: OwnedFd,
    demands: OwnedFd,
}

impl LeaseMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            filters: maps.open(FILTERS)?,
            leases: maps.descriptor(LEASES)?,
            demands: maps.descriptor(DEMANDS)?,
        })
    }

    pub fn set_filters(&mut self, filters: &[Filter; 2]) -> Result<(), DatapathError> {
        for (family, filter) in [Family::Ipv4, Family::Ipv6].into_iter().zip(filters) {
            let answer = self.filters.set(filter_of(family), filter, 0);
            answer.map_err(failed("writing", FILTERS, FILTERS_MAX))?;
        }
        Ok(())
    }

    pub fn set(&self, leases: &[(LogKey, Lease)]) -> Result<(), DatapathError> {
        let (keys, values): (Vec<_>, Vec<_>) = leases.iter().copied().unzip();
        let answer = batch::update(self.leases.as_fd(), &keys, &values);
        answer.map_err(|source| DatapathError::Write {
            map: LEASES,
            source,
        })
    }

    pub fn remove(&self, keys: &[LogKey]) -> Result<(), DatapathError> {
        let answer = batch::delete(self.leases.as_fd(), keys);
        answer.map_err(|source| DatapathError::Write {
            map: LEASES,
            source,
        })
    }

    pub fn all(&self) -> Result<Vec<(LogKey, Lease)>, DatapathError> {
        let mut all = Vec::new();
        let answer = batch::for_each(self.leases.as_fd(), |key, lease| all.push((key, lease)));
        answer.map_err(unreadable(LEASES))?;
        Ok(all)
    }

    pub fn demands(&self) -> Result<Vec<(LogKey, Demand)>, DatapathError> {
        let mut all = Vec::new();
        let answer = batch::for_each(self.demands.as_fd(), |key, demand| all.push((key, demand)));
        answer.map_err(unreadable(DEMANDS))?;
        Ok(all)
    }
}
