//! The budget for new sources, of which this CPU draws shares.

use ratelimit_common::{Instant, generation::Generation, new_sources::Newcomer};

use crate::{
    maps::{NEW_SOURCES, NEW_SOURCES_SHARES, NEW_SOURCES_TAKEN},
    state::MapWord,
};

/// Takes one of the budget; `false` when it is spent.
#[inline(always)]
pub fn take(newcomer: Newcomer, now: Instant, generation: Generation) -> bool {
    let (Some(budget), Some(taken), Some(shares)) = (
        NEW_SOURCES.get(0),
        NEW_SOURCES_TAKEN.get_ptr_mut(0),
        NEW_SOURCES_SHARES.get_ptr_mut(0),
    ) else {
        return true;
    };
    // SAFETY: the shares belong to this CPU, and XDP programs do not interrupt each other on one.
    let [sources, crowds] = unsafe { &mut *shares };
    let taken = taken.cast::<u64>();
    let (word, share) = match newcomer {
        Newcomer::Source => (taken, sources),
        // SAFETY: there are two words.
        Newcomer::Crowd => (unsafe { taken.add(1) }, crowds),
    };
    match budget.of(generation).take(&MapWord(word), *share, now) {
        Some(next) => {
            *share = next;
            true
        }
        None => false,
    }
}
