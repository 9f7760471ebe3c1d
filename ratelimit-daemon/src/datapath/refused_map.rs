//! The sources of one address family that limits have refused, as the CPUs counted them.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    os::fd::{AsFd, OwnedFd},
};

use aya::{
    Pod,
    maps::{Array, MapData},
};
use ratelimit_common::refused::{Refusals, Refused, WAYS, set_of, sets_of_cpu};

use super::{
    DatapathError, IpAddress, batch,
    family_maps::{failed, unreadable},
    load::Maps,
};

/// The maps of both families.
pub(super) const MAPS: [&str; 2] = ["REFUSED_V4", "REFUSED_V6"];

/// The sets of each CPU, and of all.
///
/// # Errors
///
/// When the kernel does not tell how many CPUs there may be.
pub(super) fn sets() -> anyhow::Result<(u32, u32)> {
    let cpus = aya::util::nr_cpus().map_err(|(path, error)| {
        anyhow::Error::from(error).context(format!("asking {path} for the number of CPUs"))
    })?;
    let cpus = u32::try_from(cpus)?;
    let each = sets_of_cpu(cpus);
    Ok((each, each.saturating_mul(cpus)))
}

/// The map of the family of `A`.
pub(super) struct RefusedMap<A: IpAddress + Hash>
where
    Refused<A>: Pod,
{
    name: &'static str,
    sets: Array<MapData, [Refused<A>; WAYS]>,
    descriptor: OwnedFd,
    sets_of_cpu: u32,
}

impl<A: IpAddress + Hash> RefusedMap<A>
where
    Refused<A>: Pod,
{
    pub fn new(maps: &mut Maps<'_>, name: &'static str) -> anyhow::Result<Self> {
        let (sets_of_cpu, _) = sets()?;
        Ok(Self {
            name,
            descriptor: maps.descriptor(name)?,
            sets: maps.take(name)?,
            sets_of_cpu,
        })
    }

    /// How often a source was refused; `None` where it is not known to have been.
    pub fn of(&self, source: A) -> Result<Option<Refusals>, DatapathError> {
        let mut all = None;
        for cpu in 0..self.sets.len() / self.sets_of_cpu {
            let set = self.sets.get(&set_of(&source, cpu, self.sets_of_cpu), 0);
            let set = set.map_err(failed("reading", self.name, 1))?;
            let own = set.iter().find(|known| known.source() == Some(source));
            all = sum(all, own.map(Refused::refusals));
        }
        Ok(all)
    }

    /// Those of all sources that are known to have been refused.
    pub fn for_each(&self, mut visit: impl FnMut(IpAddr, Refusals)) -> Result<(), DatapathError> {
        let mut sources: HashMap<A, Refusals> = HashMap::new();
        batch::for_each(
            self.descriptor.as_fd(),
            |_: u32, set: [Refused<A>; WAYS]| {
                for known in set {
                    if let Some(source) = known.source() {
                        let all = sources.entry(source).or_default();
                        *all = all.and(known.refusals());
                    }
                }
            },
        )
        .map_err(unreadable(self.name))?;
        for (source, refusals) in sources {
            visit(source.to_std(), refusals);
        }
        Ok(())
    }
}

fn sum(one: Option<Refusals>, other: Option<Refusals>) -> Option<Refusals> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}
