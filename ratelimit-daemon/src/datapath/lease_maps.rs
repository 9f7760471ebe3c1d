//! The maps of what this node may admit of limits that nodes share, and of what packets asked of them.

use std::os::fd::{AsFd, OwnedFd};

use ratelimit_common::{
    lease::{Demand, Lease},
    source::LogKey,
};

use super::{DatapathError, batch, family_maps::unreadable, maps::Maps};

const LEASES: &str = "LEASES";
const DEMANDS: &str = "DEMANDS";

/// Both maps.
pub(super) struct LeaseMaps {
    leases: OwnedFd,
    demands: OwnedFd,
}

impl LeaseMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            leases: maps.descriptor(LEASES)?,
            demands: maps.descriptor(DEMANDS)?,
        })
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
