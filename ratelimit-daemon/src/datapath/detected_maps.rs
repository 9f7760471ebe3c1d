//! The maps of the bans that policies made, which user space takes over.
//!
//! The program inserts a ban, and then sets its bit in the filter. Bits are cleared here, by writing a whole filter, which
//! may undo a bit that the program sets at the same time. So the bans are looked through once more after each write: one
//! whose bit is missing had come before, and the filter is written again with it.

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
    BanBudgets, Detected, Instant, Ipv4, Ipv6, Standing,
    ban_budget::SLOTS,
    detected::{Filter, Tally},
    layout::DETECTED_MAX,
};
use ratelimit_core::{atomic_ring::AtomicRing, ip_family::IpAddress};

use super::{
    DetectionTables, Kernel, Result,
    family_maps::{failed, is_present, unreadable, unwritable},
    mapped::Mapped,
    maps::{Elements, Keyed, Maps},
};
use crate::syscall;

/// The map of the bans of IPv4 sources.
pub(super) const V4: &str = "DETECTED_V4";
/// That of IPv6 sources.
pub(super) const V6: &str = "DETECTED_V6";
const RING: &str = "DETECTION_RING";

/// The bans of both families, their filters, their limit and their counters.
pub(super) struct DetectedMaps {
    v4: Bans<Ipv4>,
    v6: Bans<Ipv6>,
    filter: Elements<Filter>,
    limit: Elements<BanBudgets>,
    ring: OwnedFd,
    tally: PerCpuArray<MapData, Tally>,
}

impl DetectedMaps {
    pub fn new(maps: &Maps) -> anyhow::Result<Self> {
        Ok(Self {
            v4: Bans(maps.keyed(V4)?),
            v6: Bans(maps.keyed(V6)?),
            filter: maps.elements("FILTERS")?,
            limit: maps.elements("DETECTION_LIMIT")?,
            ring: maps.descriptor(RING)?,
            tally: maps.open("DETECTIONS")?,
        })
    }
}

impl DetectionTables for Kernel {
    fn strikes(&self, source: IpAddr) -> Result<u64> {
        match source {
            IpAddr::V4(address) => self.v4.strikes(address.into()),
            IpAddr::V6(address) => self.v6.strikes(address.into()),
        }
    }

    fn set_detection_limit(&mut self, limit: BanBudgets) -> Result<()> {
        self.detected.limit.set(0, limit)
    }

    fn detection_limit(&self) -> Result<BanBudgets> {
        self.detected.limit.get(0)
    }

    /// As the program does, in the same memory.
    fn take_ban(&self, budgets: BanBudgets, standing: Standing, now: Instant) -> Result<bool> {
        let words = SLOTS as usize * Standing::COUNT;
        let mapped = Mapped::new(self.detected.ring.as_fd(), words).map_err(unreadable(RING))?;
        let mut rings = mapped.words().chunks_exact(SLOTS as usize);
        let ring = rings.nth(standing as usize);
        Ok(ring.is_some_and(|ring| budgets.of(standing).take(&AtomicRing(ring), now)))
    }

    fn detected(&self, source: IpAddr) -> Result<Option<Detected>> {
        match source {
            IpAddr::V4(address) => self.detected.v4.0.get(address.into()),
            IpAddr::V6(address) => self.detected.v6.0.get(address.into()),
        }
    }

    fn all_detected(&self) -> Result<Vec<(IpAddr, Detected)>> {
        let mut all = Vec::new();
        self.detected
            .v4
            .0
            .for_each(|source, ban| all.push((source.to_std(), ban)))?;
        self.detected
            .v6
            .0
            .for_each(|source, ban| all.push((source.to_std(), ban)))?;
        Ok(all)
    }

    fn forget_detected(&mut self, taken: &[(IpAddr, Detected)]) -> Result<()> {
        let maps = &mut self.detected;
        for (source, ban) in taken {
            match *source {
                IpAddr::V4(address) => maps.v4.forget(address.into(), ban)?,
                IpAddr::V6(address) => maps.v6.forget(address.into(), ban)?,
            }
        }
        if taken.iter().any(|(source, _)| source.is_ipv4()) {
            clear_bits(&mut maps.filter, &maps.v4)?;
        }
        if taken.iter().any(|(source, _)| source.is_ipv6()) {
            clear_bits(&mut maps.filter, &maps.v6)?;
        }
        Ok(())
    }

    fn tally(&self) -> Result<Tally> {
        let cpus = self.detected.tally.get(&0, 0);
        let cpus = cpus.map_err(failed("reading", "DETECTIONS", 1))?;
        let mut sum = Tally::default();
        for cpu in cpus.iter() {
            sum.events_lost += cpu.events_lost;
            for (sum, count) in sum.detections.iter_mut().zip(cpu.detections) {
                *sum += count;
            }
        }
        Ok(sum)
    }
}

/// The bans of a family.
struct Bans<A: IpAddress + Pod>(Keyed<A, Detected>);

impl<A: IpAddress + Pod> Bans<A> {
    /// Takes a ban out that was adopted. Where its end came before that, the program may have put another in its place, which
    /// nobody knows of yet. It is found as it is taken out, and put back.
    fn forget(&mut self, source: A, taken: &Detected) -> Result<()> {
        let found = syscall::take::<A, Detected>(self.0.descriptor.as_fd(), &source);
        match found.map_err(unwritable(self.0.name))? {
            Some(found) if found.follows(taken) => self.put_back(source, found),
            _ => Ok(()),
        }
    }

    /// Puts a ban in, unless the program has made one more meanwhile.
    fn put_back(&mut self, source: A, ban: Detected) -> Result<()> {
        match self.0.map.insert(source, ban, BPF_NOEXIST.into()) {
            Err(error) if !is_present(&error) => {
                Err(failed("writing", self.0.name, DETECTED_MAX)(error))
            }
            _ => Ok(()),
        }
    }

    /// The filter of the bans that are there.
    fn filter(&self) -> Result<Filter> {
        let mut filter = Filter::CLEAR;
        self.0
            .for_each(|source, _| filter.insert(source.filter_bit()))?;
        Ok(filter)
    }
}

/// Clears the bits of bans that are gone.
fn clear_bits<A: IpAddress + Pod>(filters: &mut Elements<Filter>, bans: &Bans<A>) -> Result<()> {
    let family = A::IP_FAMILY as u32;
    let mut written = bans.filter()?;
    loop {
        filters.set(family, written)?;
        let there = bans.filter()?;
        if written.covers(&there) {
            return Ok(());
        }
        written = there;
    }
}
