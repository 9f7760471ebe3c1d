//! The maps of the challenge, and of verified sources.

use std::net::IpAddr;

use aya::maps::{MapData, PerCpuArray};
use ratelimit_common::{
    Instant,
    challenge::{self, Verified},
    generation::ByGeneration,
    layout::ends,
    of_cpu::OfCpu,
};

use super::{
    ChallengeTables, Kernel, Result,
    map_errors::failed,
    maps::{BySource, Elements, Maps},
};

/// The maps of both families.
pub(super) struct ChallengeMaps {
    pub rules: Elements<ByGeneration<challenge::Rules>>,
    taken: Elements<challenge::Taken>,
    of_cpus: PerCpuArray<MapData, OfCpu>,
    verified: BySource<u64>,
}

impl ChallengeMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            rules: maps.elements("CHALLENGE")?,
            taken: maps.elements("CHALLENGE_TAKEN")?,
            of_cpus: maps.open("OF_CPU")?,
            verified: maps.by_source(["VERIFIED_V4", "VERIFIED_V6"])?,
        })
    }
}

impl ChallengeTables for Kernel {
    fn challenge_taken(&self) -> Result<challenge::Taken> {
        self.challenge.taken.get(0)
    }

    fn pause_challenge(&mut self, until: Instant) -> Result<()> {
        self.set_end(ends::PAUSE, until)
    }

    fn challenge_paused_until(&self) -> Result<Instant> {
        self.end(ends::PAUSE)
    }

    fn challenge_unanswered(&self) -> Result<u64> {
        let answer = self.challenge.of_cpus.get(&0, 0);
        let of_cpus = answer.map_err(failed("reading", "OF_CPU", 1))?;
        Ok(of_cpus.iter().map(|own| own.challenge.unanswered).sum())
    }

    fn verified(&self, source: IpAddr) -> Result<Option<Verified>> {
        let word = self.challenge.verified.get(source)?;
        Ok(word.map(Verified::from_bits))
    }

    fn for_each_verified(&self, visit: &mut dyn FnMut(IpAddr, Verified)) -> Result<()> {
        let visit = |source, word| visit(source, Verified::from_bits(word));
        self.challenge.verified.for_each(visit)
    }
}
