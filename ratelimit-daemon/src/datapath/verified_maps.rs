//! The maps of sources that are verified.

use std::net::IpAddr;

use aya::Pod;
use ratelimit_common::{Ipv4, Ipv6, challenge::Verified, layout::VERIFIED_MAX};
use ratelimit_core::ip_family::IpAddress;

use super::{
    DatapathError,
    family_maps::failed,
    maps::{Keyed, Maps},
};

/// Those of both families.
pub(super) struct VerifiedMaps {
    v4: Keyed<Ipv4, u64>,
    v6: Keyed<Ipv6, u64>,
}

impl VerifiedMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            v4: maps.keyed("VERIFIED_V4")?,
            v6: maps.keyed("VERIFIED_V6")?,
        })
    }

    pub fn get(&self, source: IpAddr) -> Result<Option<Verified>, DatapathError> {
        let word = match source {
            IpAddr::V4(source) => self.v4.get(source.into()),
            IpAddr::V6(source) => self.v6.get(source.into()),
        };
        Ok(word?.map(Verified::from_bits))
    }

    pub fn for_each(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<(), DatapathError> {
        let v4 = |source: Ipv4, word| visit(source.to_std(), Verified::from_bits(word));
        self.v4.for_each(v4)?;
        let v6 = |source: Ipv6, word| visit(source.to_std(), Verified::from_bits(word));
        self.v6.for_each(v6)
    }

    /// Where it is verified for longer, that stays.
    pub fn insert(&mut self, source: IpAddr, verified: Verified) -> Result<(), DatapathError> {
        let before = self.get(source)?;
        if before.is_some_and(|before| before.until() >= verified.until()) {
            return Ok(());
        }
        match source {
            IpAddr::V4(source) => insert(&mut self.v4, source.into(), verified),
            IpAddr::V6(source) => insert(&mut self.v6, source.into(), verified),
        }
    }
}

fn insert<A: IpAddress + Pod>(
    sources: &mut Keyed<A, u64>,
    source: A,
    verified: Verified,
) -> Result<(), DatapathError> {
    let answer = sources.map.insert(source, verified.to_bits(), 0);
    answer.map_err(failed("writing", sources.name, VERIFIED_MAX))
}
