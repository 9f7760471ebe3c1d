//! A ring whose words are shared with other threads, or with the kernel.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use ratelimit_common::AtomicWords;

/// Borrowed words.
#[derive(Clone, Copy, Debug)]
pub struct AtomicRing<'a>(pub &'a [AtomicU64]);

impl AtomicWords for AtomicRing<'_> {
    fn load(&self, index: u32) -> u64 {
        let word = self.0.get(index as usize);
        word.map_or(0, |word| word.load(SeqCst))
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        let word = self.0.get(index as usize).ok_or(0u64)?;
        word.compare_exchange(current, new, SeqCst, SeqCst)
            .map(|_| ())
    }
}
