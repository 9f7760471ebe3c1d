//! The maps of sources that are verified.

use std::{
    hash::Hash,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use aya::{
    Pod,
    maps::{HashMap, MapData},
};
use ratelimit_common::{Ipv4, Ipv6, challenge::Verified, layout::VERIFIED_MAX};
use ratelimit_core::ip_family::IpAddress;

use super::{
    DatapathError, batch,
    family_maps::{failed, present, unreadable},
    maps::Maps,
};

/// Those of both families.
pub(super) struct VerifiedMaps {
    v4: VerifiedMap<Ipv4>,
    v6: VerifiedMap<Ipv6>,
}

impl VerifiedMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            v4: VerifiedMap::new(maps, "VERIFIED_V4")?,
            v6: VerifiedMap::new(maps, "VERIFIED_V6")?,
        })
    }

    pub fn get(&self, source: IpAddr) -> Result<Option<Verified>, DatapathError> {
        match source {
            IpAddr::V4(source) => self.v4.get(source.into()),
            IpAddr::V6(source) => self.v6.get(source.into()),
        }
    }

    pub fn for_each(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<(), DatapathError> {
        self.v4.for_each(&mut *visit)?;
        self.v6.for_each(visit)
    }

    pub fn insert(&mut self, source: IpAddr, verified: Verified) -> Result<(), DatapathError> {
        match source {
            IpAddr::V4(source) => self.v4.insert(source.into(), verified),
            IpAddr::V6(source) => self.v6.insert(source.into(), verified),
        }
    }
}

struct VerifiedMap<A: IpAddress + Hash + Pod> {
    name: &'static str,
    map: HashMap<MapData, A, u64>,
    descriptor: OwnedFd,
}

impl<A: IpAddress + Hash + Pod> VerifiedMap<A> {
    fn new(maps: &Maps, name: &'static str) -> anyhow::Result<Self> {
        Ok(Self {
            name,
            map: maps.open(name)?,
            descriptor: maps.descriptor(name)?,
        })
    }

    fn get(&self, source: A) -> Result<Option<Verified>, DatapathError> {
        let answer = present(self.map.get(&source, 0));
        let answer = answer.map_err(failed("reading", self.name, VERIFIED_MAX))?;
        Ok(answer.map(Verified::from_bits))
    }

    fn for_each(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<(), DatapathError> {
        let visit = |source: A, word: u64| visit(source.to_std(), Verified::from_bits(word));
        batch::for_each(self.descriptor.as_fd(), visit).map_err(unreadable(self.name))
    }

    /// Where it is verified for longer, that stays.
    fn insert(&mut self, source: A, verified: Verified) -> Result<(), DatapathError> {
        let before = self.get(source)?;
        if before.is_some_and(|before| before.until() >= verified.until()) {
            return Ok(());
        }
        let answer = self.map.insert(source, verified.to_bits(), 0);
        answer.map_err(failed("writing", self.name, VERIFIED_MAX))
    }
}
