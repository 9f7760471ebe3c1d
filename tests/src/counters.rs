//! The counters of verdicts, read in one system call: a test compares all of them around a packet.

use std::{
    mem::MaybeUninit,
    os::fd::{AsFd as _, AsRawFd as _, OwnedFd},
};

use anyhow::{Result, bail};
use aya::maps::Map;
use aya_obj::generated::{bpf_attr, bpf_cmd};
use ratelimit_common::layout::Counter;
use ratelimit_daemon::cpus;

use crate::foreign::bpf;

/// An array with a counter of each CPU in each place.
pub struct Counters {
    map: OwnedFd,
    cpus: usize,
}

impl Counters {
    pub(crate) fn take(map: &Map) -> Result<Self> {
        let Map::PerCpuArray(data) = map else {
            bail!("the map is no array of values per CPU");
        };
        Ok(Self {
            map: data.fd().as_fd().try_clone_to_owned()?,
            cpus: cpus::possible()? as usize,
        })
    }

    /// Returns `number` counters from the place `first` on, each summed over the CPUs. aya would
    /// make a system call for each (kernel 5.13, commit f008d732ab18).
    pub fn read(&self, first: u32, number: u32) -> Result<Vec<Counter>> {
        // The kernel expects the place before the first.
        let before = first.checked_sub(1);
        let mut next = 0u32;
        let mut places = vec![0u32; number as usize];
        let mut values = vec![Counter::default(); places.len() * self.cpus];
        // SAFETY: it is plain data, valid when all zero.
        let mut attributes: bpf_attr = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
        let batch = unsafe { &mut attributes.batch };
        batch.in_batch = before
            .as_ref()
            .map_or(0, |it| std::ptr::from_ref(it) as u64);
        batch.out_batch = &raw mut next as u64;
        batch.keys = places.as_mut_ptr() as u64;
        batch.values = values.as_mut_ptr() as u64;
        batch.count = number;
        batch.map_fd = self.map.as_raw_fd().cast_unsigned();
        match bpf(bpf_cmd::BPF_MAP_LOOKUP_BATCH, &mut attributes) {
            Ok(_) => {}
            // The end of the array.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error.into()),
        }
        // SAFETY: the kernel wrote the number of elements that it read.
        let read = unsafe { attributes.batch.count };
        if read != number {
            bail!("{read} of {number} counters were read");
        }
        let of_places = values.chunks_exact(self.cpus);
        Ok(of_places
            .map(|cpu_states| {
                cpu_states
                    .iter()
                    .copied()
                    .fold(Counter::default(), Counter::plus)
            })
            .collect())
    }
}
