//! How many answers one address is sent: nobody is to be flooded by way of this host (a reflection).

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Key;
use crate::{
    Address, Instant, address,
    algorithm::FixedWindow,
    charge::words::{Words, charge_word},
    compact::Mix,
};

/// Answers to one source in a second; sources that fall into one [bucket] share them.
pub const ANSWERS_PER_SOURCE: u64 = 8;

/// The words that answers to sources are counted in. A power of two.
pub const ANSWER_BUCKETS: u32 = 1 << 18;

/// The bits of the count in such a word: as in that of a [`Budget`](crate::new_sources::Budget).
const COUNT_BITS: u32 = 24;

/// The limit of answers to a source.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct AnswerLimit(FixedWindow);

impl AnswerLimit {
    /// [`ANSWERS_PER_SOURCE`] a second. `None` if a word could not count them.
    pub fn new() -> Option<Self> {
        let second = Duration::from_secs(1);
        let window = FixedWindow::with_count_bits(COUNT_BITS, ANSWERS_PER_SOURCE, second);
        window.ok().map(Self)
    }

    /// Takes one of the answers to a source, which are counted in `word`; `false` when it had enough of them.
    #[inline(always)]
    pub fn take(&self, word: &impl Words, now: Instant) -> bool {
        !charge_word(word, 0, |word| self.0.step(word, now, 1)).is_refused()
    }
}

/// The number of the word that answers to a source are counted in. Who does not know the key cannot choose it.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "lower bits are as mixed as any"
)]
pub fn bucket<A: Address>(source: &A, Key(seeds): Key) -> u32 {
    let [low, high] = address::words(*source);
    Mix::new(seeds).tag(low ^ high.rotate_left(32)) as u32 & (ANSWER_BUCKETS - 1)
}
