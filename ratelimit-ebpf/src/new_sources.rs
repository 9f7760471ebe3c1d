//! The budget for new sources, which is this CPU's alone.

use ratelimit_common::{Instant, generation::Generation, new_sources::Newcomer};

use crate::maps::{NEW_SOURCES, NEW_SOURCES_WORDS};

/// Takes one of the budget; `false` when it is spent.
#[inline(always)]
pub fn take(newcomer: Newcomer, now: Instant, generation: Generation) -> bool {
    let (Some(window), Some(words)) = (NEW_SOURCES.get(0), NEW_SOURCES_WORDS.get_ptr_mut(0)) else {
        return true;
    };
    // SAFETY: the words belong to this CPU, and XDP programs do not interrupt each other on one.
    let [sources, crowds] = unsafe { &mut *words };
    let word = match newcomer {
        Newcomer::Source => sources,
        Newcomer::Crowd => crowds,
    };
    match window.of(generation).step(*word, now, 1) {
        Ok(next) => {
            *word = next;
            true
        }
        Err(_) => false,
    }
}
