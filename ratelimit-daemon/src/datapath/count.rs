//! Counts the elements of a hash map without a scan. The kernel reports the memory of a map
//! (`memlock` in the `fdinfo` of its descriptor), which grows with each element since kernel 6.4
//! (commit 304849a27b34). The sizes of an element and a bucket are measured with two small maps of
//! the same kind.

use std::sync::Arc;

use super::backend::Backend;

/// Derives the number of elements from the memory of a map.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Count {
    empty_bytes: u64,
    element_bytes: u64,
}

impl Count {
    /// Measures a hash map with two empty maps of that kind that have room for one and two
    /// elements. `None` if the kernel does not report memory.
    pub fn learn([one, two]: [Arc<dyn Backend>; 2], map: &dyn Backend) -> Option<Self> {
        let size = map.size();
        let one_bytes = one.memory_bytes()?;
        let bucket_bytes = two.memory_bytes()?.checked_sub(one_bytes)?;
        let (key, value) = (vec![0; size.key_bytes], vec![0; size.value_bytes]);
        one.update(&key, &value, false).ok()?;
        let element_bytes = one.memory_bytes()?.checked_sub(one_bytes)?;
        let buckets = u64::from(size.capacity.next_power_of_two());
        (element_bytes > 0).then_some(Self {
            empty_bytes: one_bytes + (buckets - 1) * bucket_bytes,
            element_bytes,
        })
    }

    /// Returns the number of elements of a map of that kind.
    pub fn elements(self, map: &dyn Backend) -> Option<u64> {
        let bytes = map.memory_bytes()?.checked_sub(self.empty_bytes)?;
        Some(bytes / self.element_bytes)
    }
}
