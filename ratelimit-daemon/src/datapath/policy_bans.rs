//! The maps of bans by policies, until user space adopts them.
//!
//! The program inserts a ban, then sets its bit in the filter. User space clears bits by writing a
//! whole filter, which may undo a bit that the program sets at the same time. So the bans are read
//! again after each write: if the bit of one is missing, it came first, and the filter is written
//! again with it.

use std::net::IpAddr;

use aya::Pod;
use ratelimit_common::{
    BanBudgets, Evidence, Instant, PolicyBan, ban_budget::SLOTS, policy_ban::Tally,
    source_filter::Filter,
};
use ratelimit_core::{atomic_ring::AtomicRing, ip_family::IpAddress};

use super::{
    Result,
    maps::{Array, BySource, HashMap, Maps, PerCpuArray},
};

/// The maps of bans, IPv4 and IPv6.
pub(super) const BANS: [&str; 2] = ["POLICY_BANS_V4", "POLICY_BANS_V6"];
/// The words of the bans of a minute, for each evidence.
type BanWords = [u64; SLOTS as usize];

/// The bans of both families, their filters, their budgets and their counters.
pub struct PolicyBanTables {
    bans: BySource<PolicyBan>,
    filters: Array<Filter>,
    budgets: Array<BanBudgets>,
    ring: Array<BanWords>,
    tally: PerCpuArray<Tally>,
}

impl PolicyBanTables {
    pub(super) fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            bans: maps.by_source(BANS)?,
            filters: maps.array("FILTERS")?,
            budgets: maps.array("BAN_BUDGETS")?,
            ring: maps.array("BAN_RING")?,
            tally: maps.per_cpu_array("BAN_RESULTS")?,
        })
    }

    /// Sets the budgets for bans by policies per minute.
    pub fn set_budgets(&mut self, budgets: BanBudgets) -> Result<()> {
        self.budgets.set(0, budgets)
    }

    /// Returns the budgets for bans by policies per minute.
    pub fn budgets(&self) -> Result<BanBudgets> {
        self.budgets.get(0)
    }

    /// Takes a ban for the daemon from the budget of this minute, which it shares with policies.
    /// Returns whether one was left. Same algorithm as in the program, on the same memory.
    pub fn take(&self, budgets: BanBudgets, evidence: Evidence, now: Instant) -> Result<bool> {
        let first = SLOTS as usize * evidence as usize;
        let ring = self.ring.map_words(first..first + SLOTS as usize)?;
        Ok(budgets.of(evidence).take(&AtomicRing(ring.words()), now))
    }

    /// Returns a policy's ban of a source that was not adopted yet.
    pub fn get(&self, source: IpAddr) -> Result<Option<PolicyBan>> {
        Ok(self.bans.get(source)?.filter(|ban| !ban.is_exempt()))
    }

    /// Returns all bans that were not adopted yet, and the marks of exempt sources.
    pub fn all(&self) -> Result<Vec<(IpAddr, PolicyBan)>> {
        let mut all = Vec::new();
        self.bans.for_each(|source, ban| all.push((source, ban)))?;
        Ok(all)
    }

    /// Removes adopted bans, except those that the program has replaced since they were read.
    /// Missing bans are not an error.
    pub fn forget(&mut self, taken: &[(IpAddr, PolicyBan)]) -> Result<()> {
        for (source, ban) in taken {
            match *source {
                IpAddr::V4(address) => forget(&self.bans.v4, address.into(), ban)?,
                IpAddr::V6(address) => forget(&self.bans.v6, address.into(), ban)?,
            }
        }
        if taken.iter().any(|(source, _)| source.is_ipv4()) {
            clear_bits(&self.filters, &self.bans.v4)?;
        }
        if taken.iter().any(|(source, _)| source.is_ipv6()) {
            clear_bits(&self.filters, &self.bans.v6)?;
        }
        Ok(())
    }

    /// Marks sources that the program is not to ban.
    pub fn exempt(&mut self, sources: &[IpAddr]) -> Result<()> {
        for source in sources {
            match *source {
                IpAddr::V4(address) => self.bans.v4.insert(address.into(), PolicyBan::EXEMPT)?,
                IpAddr::V6(address) => self.bans.v6.insert(address.into(), PolicyBan::EXEMPT)?,
            }
        }
        Ok(())
    }

    /// Returns the results of bans by policies, summed over all CPUs.
    pub fn tally(&self) -> Result<Tally> {
        let mut sum = Tally::default();
        for cpu in self.tally.get(0)? {
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
    bans: &HashMap<A, PolicyBan>,
    source: A,
    taken: &PolicyBan,
) -> Result<()> {
    match bans.take(source)? {
        // Unless the program has made another one since.
        Some(found) if found.follows(taken) && !found.is_exempt() => bans.insert(source, found),
        _ => Ok(()),
    }
}

/// Returns the filter of the existing bans.
fn filter<A: IpAddress + Pod>(bans: &HashMap<A, PolicyBan>) -> Result<Filter> {
    let mut filter = Filter::CLEAR;
    bans.for_each(|source, ban| {
        if !ban.is_exempt() {
            filter.insert(source.filter_bit());
        }
    })?;
    Ok(filter)
}

/// Clears the bits of removed bans.
fn clear_bits<A: IpAddress + Pod>(
    filters: &Array<Filter>,
    bans: &HashMap<A, PolicyBan>,
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
