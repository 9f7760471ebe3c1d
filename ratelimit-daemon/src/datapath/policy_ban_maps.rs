//! The maps of bans by policies, until user space adopts them.
//!
//! The program inserts a ban, then sets its bit in the filter. User space clears bits by writing a
//! whole filter, which may undo a bit that the program sets at the same time. So the bans are read
//! again after each write: if the bit of one is missing, it came first, and the filter is written
//! again with it.

use std::{
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use aya::{
    Pod,
    maps::{MapData, PerCpuArray},
};
use aya_obj::generated::BPF_NOEXIST;
use ratelimit_common::{
    BanBudgets, Evidence, Instant, PolicyBan, ban_budget::SLOTS, layout::POLICY_BANS_MAX,
    policy_ban::Tally, source_filter::Filter,
};
use ratelimit_core::{atomic_ring::AtomicRing, ip_family::IpAddress};

use super::{
    Kernel, PolicyBanTables, Result,
    map_errors::{failed, is_present, unreadable, unwritable},
    mapped::Mapped,
    maps::{BySource, Elements, Keyed, Maps},
};
use crate::syscall;

/// The maps of bans, IPv4 and IPv6.
pub(super) const BANS: [&str; 2] = ["POLICY_BANS_V4", "POLICY_BANS_V6"];
const RING: &str = "BAN_RING";

/// The bans of both families, their filters, their budget and their counters.
pub(super) struct PolicyBanMaps {
    bans: BySource<PolicyBan>,
    filter: Elements<Filter>,
    limit: Elements<BanBudgets>,
    ring: OwnedFd,
    tally: PerCpuArray<MapData, Tally>,
}

impl PolicyBanMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            bans: maps.by_source(BANS)?,
            filter: maps.elements("FILTERS")?,
            limit: maps.elements("BAN_BUDGETS")?,
            ring: maps.descriptor(RING)?,
            tally: maps.open("BAN_RESULTS")?,
        })
    }
}

impl PolicyBanTables for Kernel {
    fn strikes(&self, source: IpAddr) -> Result<u64> {
        let word = self.sources.strikes.get(source)?;
        Ok(word.unwrap_or_default())
    }

    fn set_ban_budgets(&mut self, limit: BanBudgets) -> Result<()> {
        self.policy_bans.limit.set(0, limit)
    }

    fn ban_budgets(&self) -> Result<BanBudgets> {
        self.policy_bans.limit.get(0)
    }

    /// Same algorithm as in the program, on the same memory.
    fn take_ban(&self, budgets: BanBudgets, evidence: Evidence, now: Instant) -> Result<bool> {
        let words = SLOTS as usize * Evidence::COUNT;
        let mapped = Mapped::new(self.policy_bans.ring.as_fd(), words).map_err(unreadable(RING))?;
        let mut rings = mapped.words().chunks_exact(SLOTS as usize);
        let ring = rings.nth(evidence as usize);
        Ok(ring.is_some_and(|ring| budgets.of(evidence).take(&AtomicRing(ring), now)))
    }

    fn policy_ban(&self, source: IpAddr) -> Result<Option<PolicyBan>> {
        self.policy_bans.bans.get(source)
    }

    fn policy_bans(&self) -> Result<Vec<(IpAddr, PolicyBan)>> {
        let mut all = Vec::new();
        let bans = &self.policy_bans.bans;
        bans.for_each(|source, ban| all.push((source, ban)))?;
        Ok(all)
    }

    fn forget_policy_bans(&mut self, taken: &[(IpAddr, PolicyBan)]) -> Result<()> {
        let maps = &mut self.policy_bans;
        for (source, ban) in taken {
            match *source {
                IpAddr::V4(address) => forget(&mut maps.bans.v4, address.into(), ban)?,
                IpAddr::V6(address) => forget(&mut maps.bans.v6, address.into(), ban)?,
            }
        }
        if taken.iter().any(|(source, _)| source.is_ipv4()) {
            clear_bits(&mut maps.filter, &maps.bans.v4)?;
        }
        if taken.iter().any(|(source, _)| source.is_ipv6()) {
            clear_bits(&mut maps.filter, &maps.bans.v6)?;
        }
        Ok(())
    }

    fn tally(&self) -> Result<Tally> {
        let cpus = self.policy_bans.tally.get(&0, 0);
        let cpus = cpus.map_err(failed("reading", "BAN_RESULTS", 1))?;
        let mut sum = Tally::default();
        for cpu in cpus.iter() {
            sum.events_lost += cpu.events_lost;
            for (sum, count) in sum.results.iter_mut().zip(cpu.results) {
                *sum += count;
            }
        }
        Ok(sum)
    }
}

/// Removes an adopted ban. If it had expired, the program may have replaced it with a new ban that
/// is not adopted yet. Such a ban is noticed on removal, and inserted again.
fn forget<A: IpAddress + Pod>(
    bans: &mut Keyed<A, PolicyBan>,
    source: A,
    taken: &PolicyBan,
) -> Result<()> {
    let found = syscall::take::<A, PolicyBan>(bans.descriptor.as_fd(), &source);
    match found.map_err(unwritable(bans.name))? {
        Some(found) if found.follows(taken) => put_back(bans, source, found),
        _ => Ok(()),
    }
}

/// Inserts a ban, unless the program has made another one since.
fn put_back<A: Pod>(bans: &mut Keyed<A, PolicyBan>, source: A, ban: PolicyBan) -> Result<()> {
    match bans.map.insert(source, ban, BPF_NOEXIST.into()) {
        Err(error) if !is_present(&error) => {
            Err(failed("writing", bans.name, POLICY_BANS_MAX)(error))
        }
        _ => Ok(()),
    }
}

/// Returns the filter of the existing bans.
fn filter<A: IpAddress + Pod>(bans: &Keyed<A, PolicyBan>) -> Result<Filter> {
    let mut filter = Filter::CLEAR;
    bans.for_each(|source, _| filter.insert(source.filter_bit()))?;
    Ok(filter)
}

/// Clears the bits of removed bans.
fn clear_bits<A: IpAddress + Pod>(
    filters: &mut Elements<Filter>,
    bans: &Keyed<A, PolicyBan>,
) -> Result<()> {
    let family = A::IP_FAMILY as u32;
    let mut written = filter(bans)?;
    loop {
        filters.set(family, written)?;
        let there = filter(bans)?;
        if written.covers(&there) {
            return Ok(());
        }
        written = there;
    }
}
