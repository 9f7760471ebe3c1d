//! Limits the answers to one address, so that no host can be flooded through this one (reflection).

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Key;
use crate::{
    Address, Instant, address,
    algorithm::FixedWindow,
    charge::words::{Words, charge_word},
    compact::Mix,
};

/// Answers to one source per second. Sources in the same [bucket] share them.
pub const ANSWERS_PER_SOURCE: u64 = 8;

/// The words that count answers to sources. A power of two.
pub const ANSWER_BUCKETS: u32 = 1 << 18;

/// The bits of the count in such a word, as in that of a [`Budget`](crate::new_sources::Budget).
const COUNT_BITS: u32 = 24;

/// The limit of answers to a source.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct AnswerLimit(FixedWindow);

impl AnswerLimit {
    /// [`ANSWERS_PER_SOURCE`] per second. `None` if a word could not count them.
    pub fn new() -> Option<Self> {
        let second = Duration::from_secs(1);
        let window = FixedWindow::with_count_bits(COUNT_BITS, ANSWERS_PER_SOURCE, second);
        window.ok().map(Self)
    }

    /// Takes an answer to a source, counted in `word`. `false` if the source had enough.
    #[inline(always)]
    pub fn take(&self, word: &impl Words, now: Instant) -> bool {
        !charge_word(word, 0, |word| self.0.step(word, now, 1)).is_refused()
    }
}

/// The word that counts answers to a source. It cannot be chosen without knowing the key.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "lower bits are as mixed as any"
)]
pub fn bucket<A: Address>(source: &A, Key(seeds): Key) -> u32 {
    let [low, high] = address::words(*source);
    Mix::new(seeds).tag(low ^ high.rotate_left(32)) as u32 & (ANSWER_BUCKETS - 1)
}
