//! A map in the kernel. Many elements are read and written in few system calls (kernel 5.6, commits
//! cb4d03ab499d and aa2e93b8e58e), which aya lacks.

use std::{
    fs, io,
    mem::MaybeUninit,
    ops::Range,
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use anyhow::Context;
use aya::maps::{MapData, MapType};
use aya_obj::generated::{BPF_ANY, BPF_NOEXIST, bpf_attr, bpf_cmd};

use super::{
    backend::{Backend, MapSize, Read},
    mapped::Mapped,
};
use crate::{cpus, syscall};

/// A map by its descriptor.
pub struct KernelMap {
    descriptor: OwnedFd,
    size: MapSize,
}

impl KernelMap {
    /// Takes the descriptor of a map.
    pub fn new(descriptor: OwnedFd) -> anyhow::Result<Self> {
        let data = MapData::from_fd(descriptor.try_clone()?)?;
        let info = data.info().context("asking for the size of a map")?;
        let value_bytes = info.value_size() as usize;
        let value_bytes = if info.map_type()? == MapType::PerCpuArray {
            value_bytes.next_multiple_of(size_of::<u64>()) * cpus::possible()? as usize
        } else {
            value_bytes
        };
        let size = MapSize {
            key_bytes: info.key_size() as usize,
            value_bytes,
            capacity: info.max_entries(),
        };
        Ok(Self { descriptor, size })
    }

    /// Runs a command on an element; `false` if there is none with this key.
    ///
    /// # Safety
    ///
    /// `value` is as long as a value.
    unsafe fn element(
        &self,
        command: bpf_cmd,
        key: &[u8],
        value: *mut u8,
        flags: u32,
    ) -> io::Result<bool> {
        assert_eq!(key.len(), self.size.key_bytes, "the length of a key");
        let map = self.descriptor.as_fd();
        // SAFETY: the key has the length that was checked; the caller guarantees the value.
        unsafe { syscall::element(command, map, key.as_ptr(), value, flags) }
    }

    /// Runs a command that writes a value.
    fn read(&self, command: bpf_cmd, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        assert_eq!(value.len(), self.size.value_bytes, "the length of a value");
        // SAFETY: a value has the length that was checked.
        unsafe { self.element(command, key, value.as_mut_ptr(), 0) }
    }

    /// Returns the number of keys.
    fn count(&self, key_bytes: usize) -> usize {
        assert!(key_bytes.is_multiple_of(self.size.key_bytes), "whole keys");
        key_bytes / self.size.key_bytes
    }

    /// Runs a command with attributes that `set` fills with buffers that outlive the call, and
    /// returns the number of processed elements.
    fn batch(
        &self,
        command: bpf_cmd,
        count: usize,
        set: impl FnOnce(&mut Batch),
    ) -> (usize, Option<io::Error>) {
        let mut attributes: bpf_attr = syscall::attributes();
        // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
        let batch = unsafe { &mut attributes.batch };
        set(batch);
        batch.map_fd = self.descriptor.as_raw_fd().cast_unsigned();
        batch.count = u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: the callers check the lengths of the buffers.
        let answer = unsafe { syscall::bpf(command, &mut attributes) };
        // SAFETY: as above; the kernel wrote the count.
        (unsafe { attributes.batch.count } as usize, answer.err())
    }
}

type Batch = aya_obj::generated::bpf_attr__bindgen_ty_3;

// SAFETY: the kernel writes the elements that it counts.
unsafe impl Backend for KernelMap {
    fn size(&self) -> MapSize {
        self.size
    }

    fn memory_bytes(&self) -> Option<u64> {
        let path = format!("/proc/self/fdinfo/{}", self.descriptor.as_raw_fd());
        let text = fs::read_to_string(path).ok()?;
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("memlock:"))?;
        line.trim().parse().ok()
    }

    fn lookup(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.read(bpf_cmd::BPF_MAP_LOOKUP_ELEM, key, value)
    }

    fn update(&self, key: &[u8], value: &[u8], is_new: bool) -> io::Result<()> {
        assert_eq!(value.len(), self.size.value_bytes, "the length of a value");
        let flags = if is_new { BPF_NOEXIST } else { BPF_ANY };
        let (command, value) = (bpf_cmd::BPF_MAP_UPDATE_ELEM, value.as_ptr().cast_mut());
        // SAFETY: the value has the length that was checked, and the kernel only reads it.
        unsafe { self.element(command, key, value, flags) }.map(drop)
    }

    /// The command exists for hash maps since kernel 5.14 (commit 3e87f192b405).
    fn take(&self, key: &[u8], value: &mut [u8]) -> io::Result<bool> {
        self.read(bpf_cmd::BPF_MAP_LOOKUP_AND_DELETE_ELEM, key, value)
    }

    fn read_batch(
        &self,
        place: Option<&[u8]>,
        next: &mut [u8],
        keys: &mut [MaybeUninit<u8>],
        values: &mut [MaybeUninit<u8>],
    ) -> io::Result<Read> {
        let capacity = self.count(keys.len());
        assert!(values.len() >= capacity * self.size.value_bytes, "room");
        // The place in a hash map is the number of a bucket.
        assert!(next.len() >= self.size.key_bytes.max(size_of::<u32>()));
        let (count, error) = self.batch(bpf_cmd::BPF_MAP_LOOKUP_BATCH, capacity, |batch| {
            batch.in_batch = place.map_or(0, |place| place.as_ptr() as u64);
            batch.out_batch = next.as_mut_ptr() as u64;
            batch.keys = keys.as_mut_ptr() as u64;
            batch.values = values.as_mut_ptr() as u64;
        });
        let count = count.min(capacity);
        match error {
            None => Ok(Read {
                count,
                is_last: false,
            }),
            // The end of the map; the elements before it are valid.
            Some(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Read {
                count,
                is_last: true,
            }),
            Some(error) => Err(error),
        }
    }

    fn update_batch(&self, keys: &[u8], values: &[u8]) -> io::Result<()> {
        let count = self.count(keys.len());
        assert_eq!(values.len(), count * self.size.value_bytes, "values");
        let (_, error) = self.batch(bpf_cmd::BPF_MAP_UPDATE_BATCH, count, |batch| {
            batch.keys = keys.as_ptr() as u64;
            batch.values = values.as_ptr() as u64;
        });
        error.map_or(Ok(()), Err)
    }

    fn delete_batch(&self, mut keys: &[u8]) -> io::Result<()> {
        while !keys.is_empty() {
            let count = self.count(keys.len());
            let (done, error) = self.batch(bpf_cmd::BPF_MAP_DELETE_BATCH, count, |batch| {
                batch.keys = keys.as_ptr() as u64;
            });
            match error {
                None => return Ok(()),
                // The kernel stops at the first missing key.
                Some(error) if error.raw_os_error() == Some(libc::ENOENT) => {
                    let rest = (done + 1) * self.size.key_bytes;
                    keys = keys.get(rest..).unwrap_or_default();
                }
                Some(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn map_words(&self, words: Range<usize>) -> io::Result<Mapped> {
        Mapped::part(self.descriptor.as_fd(), words)
    }
}
