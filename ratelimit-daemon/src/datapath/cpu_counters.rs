//! Counters that each CPU keeps for itself. Many of them are read in one system call (kernel 5.13,
//! commit f008d732ab18).

use std::{
    io,
    ops::Range,
    os::fd::{AsFd, OwnedFd},
};

use ratelimit_common::layout::Counter;

use super::{
    batch::{self, ScanPosition},
    maps::Maps,
};
use crate::cpus;

/// Packets and bytes, a word each.
const WORDS: usize = size_of::<Counter>() / size_of::<u64>();

/// An array of them.
pub(super) struct CpuCounters {
    map: OwnedFd,
    cpus: usize,
}

impl CpuCounters {
    pub fn new(maps: &Maps, name: &str) -> anyhow::Result<Self> {
        Ok(Self {
            map: maps.descriptor(name)?,
            cpus: usize::try_from(cpus::possible()?)?,
        })
    }

    /// The sums over all CPUs at these indices, as far as they exist.
    pub fn sums(&self, indices: Range<u32>) -> io::Result<Vec<Counter>> {
        let mut sums = Vec::with_capacity(indices.len());
        let words = WORDS * self.cpus;
        let visit = |_: u32, words: &[u64]| sums.push(sum(words));
        batch::for_some_parts(
            self.map.as_fd(),
            &ScanPosition::before(indices.start),
            indices.len(),
            words,
            visit,
        )?;
        Ok(sums)
    }
}

fn sum(words: &[u64]) -> Counter {
    let each = words.chunks_exact(WORDS).map(|it| Counter {
        packets: it[0],
        bytes: it[1],
    });
    each.fold(Counter::default(), Counter::plus)
}
