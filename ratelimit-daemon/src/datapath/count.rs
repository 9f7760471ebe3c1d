//! Counts the elements of a hash map without a scan. The kernel reports the memory of a map
//! (`memlock` in the `fdinfo` of its descriptor), which grows with each element since kernel 6.4
//! (commit 304849a27b34). The sizes of an element and a bucket are measured with two small maps of
//! the same kind.

use std::{
    fs,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

use aya::Pod;

use super::batch;

/// Derives the number of elements from the memory of a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Count {
    empty_bytes: u64,
    element_bytes: u64,
}

impl Count {
    /// Measures hash maps with room for `capacity` elements, with two empty maps of that kind that
    /// have room for one and two. `None` if the kernel does not report memory.
    pub fn learn<K: Pod + Sync, V: Pod + Sync>(
        [one, two]: [OwnedFd; 2],
        capacity: u32,
    ) -> Option<Self> {
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

    /// Returns the number of elements of a map of that kind.
    pub fn elements(self, map: BorrowedFd<'_>) -> Option<u64> {
        let bytes = memory_bytes(map)?.checked_sub(self.empty_bytes)?;
        Some(bytes / self.element_bytes)
    }
}

/// Returns the memory of a map as reported by the kernel.
pub fn memory_bytes(map: BorrowedFd<'_>) -> Option<u64> {
    let path = format!("/proc/self/fdinfo/{}", map.as_raw_fd());
    let text = fs::read_to_string(path).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("memlock:"))?;
    line.trim().parse().ok()
}
