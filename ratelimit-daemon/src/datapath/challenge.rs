//! The challenge, and verified sources.

use std::net::IpAddr;

use ratelimit_common::{
    Instant,
    challenge::{self, Verified},
    cpu_state::CpuState,
    layout::ends,
};

use super::{
    Result,
    maps::{Array, BySource, Maps, PerCpuArray},
};

/// The state of the challenge.
pub struct ChallengeTables {
    taken: Array<challenge::SharedState>,
    cpu_states: PerCpuArray<CpuState>,
    ends: Array<u64>,
    verified: BySource<u64>,
}

impl ChallengeTables {
    pub(super) fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            taken: maps.array("CHALLENGE_TAKEN")?,
            cpu_states: maps.per_cpu_array("OF_CPU")?,
            ends: maps.array("ENDS")?,
            verified: maps.by_source(["VERIFIED_V4", "VERIFIED_V6"])?,
        })
    }

    /// Returns when the challenge is on, and the used part of the budgets that all CPUs share.
    pub fn taken(&self) -> Result<challenge::SharedState> {
        self.taken.get(0)
    }

    /// Pauses the challenge.
    pub fn pause(&mut self, until: Instant) -> Result<()> {
        self.ends.set(ends::PAUSE, until.as_nanos())
    }

    /// Returns the end of the last pause of the challenge.
    pub fn paused_until(&self) -> Result<Instant> {
        self.ends.get(ends::PAUSE).map(Instant::from_nanos)
    }

    /// Returns how many SYNs and queries were not challenged because the budget was spent.
    pub fn unanswered(&self) -> Result<u64> {
        let cpu_states = self.cpu_states.get(0)?;
        Ok(cpu_states.iter().map(|own| own.challenge.unanswered).sum())
    }

    /// Returns the verification of a source, which may have expired.
    pub fn verified(&self, source: IpAddr) -> Result<Option<Verified>> {
        let word = self.verified.get(source)?;
        Ok(word.map(Verified::from_bits))
    }

    /// Visits all verified sources, including expired ones.
    pub fn for_each_verified(&self, mut visit: impl FnMut(IpAddr, Verified)) -> Result<()> {
        self.verified
            .for_each(|source, word| visit(source, Verified::from_bits(word)))
    }
}
