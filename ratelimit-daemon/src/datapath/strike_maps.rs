//! The strikes of one address family: those that all CPUs see, and those that each keeps back.
//!
//! A CPU may add what it keeps back between a look at the one and the other. What is kept back is read first, so that such
//! strikes are told twice, once, and never missed.

use std::{
    collections::HashMap as StdHashMap,
    hash::Hash,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use aya::maps::{HashMap, MapData, PerCpuArray};
use ratelimit_common::{
    Strikes,
    strikes::pending::{Pending, SLOTS},
};

use super::{
    DatapathError, IpAddress, batch,
    family_maps::{failed, present, unreadable},
    load::Maps,
};

/// The names of a family's maps.
pub(super) struct Names {
    strikes: &'static str,
    pending: &'static str,
}

/// The IPv4 maps.
pub(super) const V4: Names = Names {
    strikes: "STRIKES_V4",
    pending: "PENDING_V4",
};

/// The IPv6 maps.
pub(super) const V6: Names = Names {
    strikes: "STRIKES_V6",
    pending: "PENDING_V6",
};

/// The maps of the family of `A`.
pub(super) struct StrikeMaps<A: IpAddress + Hash> {
    names: &'static Names,
    strikes: HashMap<MapData, A, Strikes>,
    strikes_fd: OwnedFd,
    pending: PerCpuArray<MapData, [Pending; SLOTS]>,
}

impl<A: IpAddress + Hash> StrikeMaps<A> {
    pub fn new(maps: &mut Maps<'_>, names: &'static Names) -> anyhow::Result<Self> {
        Ok(Self {
            names,
            strikes_fd: maps.descriptor(names.strikes)?,
            strikes: maps.take(names.strikes)?,
            pending: maps.take(names.pending)?,
        })
    }

    /// Those of a source; `None` where it has none.
    pub fn of(&self, source: A) -> Result<Option<Strikes>, DatapathError> {
        let pending = self.pending()?.remove(&source);
        let strikes = present(self.strikes.get(&source, 0)).map_err(failed(
            "reading",
            self.names.strikes,
            0,
        ))?;
        let is_struck = strikes.is_some() || pending.is_some();
        Ok(is_struck.then(|| with(strikes.unwrap_or_default(), pending)))
    }

    /// Those of all sources that have some.
    pub fn for_each(&self, mut visit: impl FnMut(IpAddr, Strikes)) -> Result<(), DatapathError> {
        let mut pending = self.pending()?;
        batch::for_each(self.strikes_fd.as_fd(), |address: A, strikes| {
            visit(address.to_std(), with(strikes, pending.remove(&address)));
        })
        .map_err(unreadable(self.names.strikes))?;
        for (address, kept_back) in pending {
            visit(address.to_std(), with(Strikes::default(), Some(kept_back)));
        }
        Ok(())
    }

    /// What the CPUs keep back, by source.
    fn pending(&self) -> Result<StdHashMap<A, Vec<Pending>>, DatapathError> {
        let by_cpu = self.pending.get(&0, 0);
        let by_cpu = by_cpu.map_err(failed("reading", self.names.pending, 1))?;
        let mut sources: StdHashMap<A, Vec<Pending>> = StdHashMap::new();
        for pending in by_cpu.iter().flatten() {
            if let Some(source) = pending.source() {
                sources.entry(source).or_default().push(*pending);
            }
        }
        Ok(sources)
    }
}

fn with(strikes: Strikes, pending: Option<Vec<Pending>>) -> Strikes {
    let pending = pending.unwrap_or_default();
    pending.iter().fold(strikes, Strikes::with)
}
