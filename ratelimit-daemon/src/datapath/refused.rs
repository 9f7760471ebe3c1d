//! The refused sources of a family, as counted by the CPUs. Scans read all of them from mapped
//! memory. If a CPU gives a slot to another source during the scan, that source is reported with
//! the previous count.

use std::{
    collections::HashMap,
    hash::Hash,
    net::IpAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use aya::Pod;
use ratelimit_common::{
    Address, Ipv6, Refusals,
    refused::{Refused, WAYS, set_of, sets_of_cpu},
};
use ratelimit_core::ip_family::IpAddress;
use zerocopy::{FromBytes, IntoBytes};

use super::{
    Result,
    mapped::Mapped,
    maps::{Array, Maps},
};
use crate::cpus;

pub(super) struct RefusedMap<A: IpAddress + Hash + Pod>
where
    Refused<A>: Pod,
{
    sets: Array<[Refused<A>; WAYS]>,
    sets_of_cpu: u32,
}

impl<A: IpAddress + Hash + Pod> RefusedMap<A>
where
    Refused<A>: Pod,
{
    pub fn new(maps: &Maps, name: &'static str) -> anyhow::Result<Self> {
        Ok(Self {
            sets: maps.array(name)?,
            sets_of_cpu: sets_of_cpu(cpus::possible()?),
        })
    }

    /// Returns how often a source was refused, if that is known.
    pub fn of(&self, source: A) -> Result<Option<Refusals>> {
        let mut all = None;
        for cpu in 0..self.sets.len() / self.sets_of_cpu {
            let set = self.sets.get(set_of(&source, cpu, self.sets_of_cpu))?;
            let own = set.iter().find(|known| known.source() == Some(source));
            all = sum(all, own.map(Refused::refusals));
        }
        Ok(all)
    }

    /// Visits all sources known to have been refused.
    pub fn for_each(&self, mut visit: impl FnMut(IpAddr, Refusals)) -> Result<()> {
        let words = self.sets.len() as usize * words_of_set::<A>();
        let mapped = self.sets.map_words(0..words)?;
        for (source, refusals) in refusals_in::<A>(&mapped) {
            visit(source.to_std(), refusals);
        }
        Ok(())
    }
}

/// Returns the words of a set, rounded up to whole ones.
pub const fn words_of_set<A>() -> usize {
    size_of::<[Refused<A>; WAYS]>().div_ceil(size_of::<u64>())
}

/// Returns the counts of all CPUs in a fully mapped map.
pub fn refusals_in<A: Address + FromBytes + Hash>(map: &Mapped) -> HashMap<A, Refusals> {
    let mut sources: HashMap<A, Refusals> = HashMap::new();
    for (source, known) in refused_in::<A>(map.words()) {
        let all = sources.entry(source).or_default();
        *all = all.and(known.refusals());
    }
    sources
}

/// Returns the sources in the words of sets.
pub fn refused_in<A: Address + FromBytes>(
    words: &[AtomicU64],
) -> impl Iterator<Item = (A, Refused<A>)> {
    let sets = words.chunks_exact(words_of_set::<A>());
    // The first slot is used first, and begins with its count.
    let sets = sets.filter(|words| words[0].load(Relaxed) != 0);
    sets.flat_map(|words| {
        let mut set = [0; words_of_set::<Ipv6>()];
        for (word, shared) in set.iter_mut().zip(words) {
            *word = shared.load(Relaxed);
        }
        let places = set.as_bytes().chunks_exact(size_of::<Refused<A>>());
        let mut places = places.map(|place| {
            let known = Refused::<A>::read_from_bytes(place).ok()?;
            Some((known.source()?, known))
        });
        let known: [_; WAYS] = std::array::from_fn(|_| places.next().flatten());
        known.into_iter().flatten()
    })
}

fn sum(one: Option<Refusals>, other: Option<Refusals>) -> Option<Refusals> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.and(other)),
        (one, other) => one.or(other),
    }
}
