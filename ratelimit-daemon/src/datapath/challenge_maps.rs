//! The maps of when sources are challenged, and of those that are verified.

use std::net::IpAddr;

use aya::{
    Pod,
    maps::{MapData, PerCpuArray},
};
use ratelimit_common::{
    Instant, Ipv4, Ipv6,
    challenge::{self, Verified},
    generation::ByGeneration,
    layout::{VERIFIED_MAX, suspended},
};
use ratelimit_core::ip_family::IpAddress;

use super::{
    ChallengeTables, Kernel, Result,
    family_maps::failed,
    maps::{Elements, Keyed, Maps},
};

/// Those of both families.
pub(super) struct ChallengeMaps {
    rules: Elements<ByGeneration<challenge::Rules>>,
    taken: Elements<challenge::Taken>,
    of_cpus: PerCpuArray<MapData, challenge::OfCpu>,
    v4: Keyed<Ipv4, u64>,
    v6: Keyed<Ipv6, u64>,
}

impl ChallengeMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            rules: maps.elements("CHALLENGE")?,
            taken: maps.elements("CHALLENGE_TAKEN")?,
            of_cpus: maps.open("CHALLENGE_SHARES")?,
            v4: maps.keyed("VERIFIED_V4")?,
            v6: maps.keyed("VERIFIED_V6")?,
        })
    }
}

impl ChallengeTables for Kernel {
    fn set_challenge(&mut self, rules: ByGeneration<challenge::Rules>) -> Result<()> {
        self.challenge.rules.set(0, rules)
    }

    fn challenge(&self) -> Result<ByGeneration<challenge::Rules>> {
        self.challenge.rules.get(0)
    }

    fn challenge_taken(&self) -> Result<challenge::Taken> {
        self.challenge.taken.get(0)
    }

    fn suspend_challenge(&mut self, until: Instant) -> Result<()> {
        self.suspend(suspended::CHALLENGE, until)
    }

    fn challenge_suspended(&self) -> Result<Instant> {
        self.suspended(suspended::CHALLENGE)
    }

    fn challenge_unanswered(&self) -> Result<u64> {
        let answer = self.challenge.of_cpus.get(&0, 0);
        let of_cpus = answer.map_err(failed("reading", "CHALLENGE_SHARES", 1))?;
        Ok(of_cpus.iter().map(|own| own.unanswered).sum())
    }

    fn verified(&self, source: IpAddr) -> Result<Option<Verified>> {
        let word = match source {
            IpAddr::V4(source) => self.challenge.v4.get(source.into()),
            IpAddr::V6(source) => self.challenge.v6.get(source.into()),
        };
        Ok(word?.map(Verified::from_bits))
    }

    fn for_each_verified(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<()> {
        let v4 = |source: Ipv4, word| visit(source.to_std(), Verified::from_bits(word));
        self.challenge.v4.for_each(v4)?;
        let v6 = |source: Ipv6, word| visit(source.to_std(), Verified::from_bits(word));
        self.challenge.v6.for_each(v6)
    }

    fn verify(&mut self, sources: &[(IpAddr, Verified)]) -> Result<()> {
        for (source, verified) in sources {
            let before = self.verified(*source)?;
            if before.is_some_and(|before| before.until() >= verified.until()) {
                continue;
            }
            match *source {
                IpAddr::V4(source) => insert(&mut self.challenge.v4, source.into(), *verified)?,
                IpAddr::V6(source) => insert(&mut self.challenge.v6, source.into(), *verified)?,
            }
        }
        Ok(())
    }
}

fn insert<A: IpAddress + Pod>(
    sources: &mut Keyed<A, u64>,
    source: A,
    verified: Verified,
) -> Result<()> {
    let answer = sources.map.insert(source, verified.to_bits(), 0);
    answer.map_err(failed("writing", sources.name, VERIFIED_MAX))
}
