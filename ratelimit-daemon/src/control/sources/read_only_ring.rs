//! A sliding log as it was read.

use ratelimit_common::AtomicWords;

/// The words of a sliding log.
pub struct ReadOnlyRing(pub Vec<u64>);

impl AtomicWords for ReadOnlyRing {
    fn times(&self) -> u32 {
        u32::try_from(self.0.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn load(&self, index: u32) -> u64 {
        self.0.get(index as usize).copied().unwrap_or_default()
    }

    fn compare_exchange(&self, _: u32, _: u64, _: u64) -> Result<(), u64> {
        Ok(())
    }
}
