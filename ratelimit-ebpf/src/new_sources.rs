//! The budget for new sources, shared by all CPUs.

use ratelimit_common::{Instant, generation::Generation, new_sources::Newcomer};

use crate::{
    first::first,
    interruption,
    map_words::MapWord,
    maps::{NEW_SOURCES, NEW_SOURCES_SHARES, NEW_SOURCES_TAKEN},
};

subprograms! {
    /// Takes one of the budget; `false` when it is spent.
    pub fn take_new_source(newcomer: Newcomer, now: Instant, generation: Generation) -> bool {
        take(newcomer, now, generation)
    }
}

#[inline(always)]
fn take(newcomer: Newcomer, now: Instant, generation: Generation) -> bool {
    let budget = NEW_SOURCES.get();
    let taken = NEW_SOURCES_TAKEN.as_ptr().cast::<u64>();
    let Some(shares) = first(&NEW_SOURCES_SHARES) else {
        return true;
    };
    if interruption::is_possible() {
        // SAFETY: there are two words.
        let word = unsafe { taken.add(newcomer as usize) };
        return budget.of(generation).take_one(&MapWord(word), now);
    }
    // SAFETY: the shares belong to this CPU, and XDP programs do not interrupt each other on one
    // here.
    let [sources, overflow_buckets] = unsafe { &mut *shares };
    let (word, share) = match newcomer {
        Newcomer::Source => (taken, sources),
        // SAFETY: there are two words.
        Newcomer::OverflowBucket => (unsafe { taken.add(1) }, overflow_buckets),
    };
    match budget.of(generation).take(&MapWord(word), *share, now) {
        Some(next) => {
            *share = next;
            true
        }
        None => false,
    }
}

/// Whether nothing is left of the budget for state of sources.
#[inline(always)]
pub fn is_spent(now: Instant, generation: Generation) -> bool {
    let Some(shares) = first(&NEW_SOURCES_SHARES) else {
        return false;
    };
    // SAFETY: as above, and they are only read.
    let [share, _] = unsafe { *shares };
    let taken = NEW_SOURCES_TAKEN.as_ptr();
    NEW_SOURCES
        .get()
        .of(generation)
        .is_spent(&MapWord(taken.cast()), share, now)
}
