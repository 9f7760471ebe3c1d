//! Words that all CPUs share.

use crate::algorithm::sliding_log::TIMES_MAX;

/// An array of words that all CPUs share, all initially 0: the ring of a sliding log, the bans of
/// the last minute, the slots of a set.
pub trait AtomicWords {
    /// The times in the ring of a sliding log: as many as the words, without the head.
    #[inline(always)]
    fn times(&self) -> u32 {
        TIMES_MAX
    }

    /// The word at `index`, 0 past the last.
    fn load(&self, index: u32) -> u64;

    /// Writes `new` at `index` if the current word is `current`.
    ///
    /// # Errors
    ///
    /// The current word.
    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64>;
}
