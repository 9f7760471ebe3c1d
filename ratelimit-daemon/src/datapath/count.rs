//! How many elements a hash map has, in no time: the kernel tells the memory of a map (`memlock` in the `fdinfo` of its
//! descriptor), which grows with each element from kernel 6.4 on (commit 304849a27b34). What an element and a bucket take is
//! learned from two small maps of the same kind.

use std::{
    fs, io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd},
};

use aya::Pod;
use aya_obj::generated::{bpf_cmd, bpf_map_type};

use super::{batch, syscall};

/// What the memory of a map says of its elements.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Count {
    empty_bytes: u64,
    element_bytes: u64,
}

impl Count {
    /// That of hash maps from `K` to `V` with `flags` and room for `capacity` elements; `None` on a kernel that does not tell.
    pub fn learn<K: Pod + Sync, V: Pod + Sync>(flags: u32, capacity: u32) -> Option<Self> {
        let sizes = [size_of::<K>(), size_of::<V>()];
        let (one, two) = (make(sizes, flags, 1).ok()?, make(sizes, flags, 2).ok()?);
        let one_bytes = memory_bytes(one.as_fd())?;
        let bucket_bytes = memory_bytes(two.as_fd())?.checked_sub(one_bytes)?;
        // SAFETY: both are plain data, valid for any bytes.
        let (key, value): (K, V) = unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        batch::update(one.as_fd(), &[key], &[value]).ok()?;
        let element_bytes = memory_bytes(one.as_fd())?.checked_sub(one_bytes)?;
        let buckets = u64::from(capacity.next_power_of_two());
        (element_bytes > 0).then_some(Self {
            empty_bytes: one_bytes + (buckets - 1) * bucket_bytes,
            element_bytes,
        })
    }

    /// The elements of a map of that kind.
    pub fn elements(self, map: BorrowedFd<'_>) -> Option<u64> {
        let bytes = memory_bytes(map)?.checked_sub(self.empty_bytes)?;
        Some(bytes / self.element_bytes)
    }
}

/// The memory of a map, as the kernel tells it.
pub fn memory_bytes(map: BorrowedFd<'_>) -> Option<u64> {
    let path = format!("/proc/self/fdinfo/{}", map.as_raw_fd());
    let text = fs::read_to_string(path).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"))?;
    line.trim().parse().ok()
}

/// A hash map with keys and values of these sizes.
fn make(sizes: [usize; 2], flags: u32, capacity: u32) -> io::Result<OwnedFd> {
    let size = |size: usize| u32::try_from(size).map_err(io::Error::other);
    let mut attributes = syscall::attributes();
    // SAFETY: every field of the union is plain data, and the whole of it was zeroed.
    let map = unsafe { &mut attributes.__bindgen_anon_1 };
    map.map_type = bpf_map_type::BPF_MAP_TYPE_HASH as u32;
    map.key_size = size(sizes[0])?;
    map.value_size = size(sizes[1])?;
    map.max_entries = capacity;
    map.map_flags = flags;
    // SAFETY: the attributes name no memory.
    let descriptor = unsafe { syscall::bpf(bpf_cmd::BPF_MAP_CREATE, &mut attributes) }?;
    // SAFETY: the kernel gave it to this process just now, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
}
