//! The `compact` store: for each limit a region of sets of slots, and in each slot a source's tag
//! and the word of the limit.
//!
//! A source without a slot in its set replaces the one with the least debt, **and inherits its
//! word**. This is the idea of Space-Saving (Metwally, Agrawal, El Abbadi, "Efficient computation
//! of frequent and top-k elements in data streams", 2005). So usage is never forgotten, however
//! many sources are forged: it only counts against another source too.
//!
//! # Why eviction gives no source more than the limit
//!
//! Words are ordered from the least debt to the most
//! ([`debt_origin`](crate::algorithm::Algorithm::debt_origin)), and no step decreases one. A source
//! is evicted from the slot with the least word of its set. When it returns, every word of the set
//! is therefore at least the word that it left, and so is the one that it inherits.
//!
//! - Token bucket: the word is the reading of its clock when the bucket is full again. A greater
//!   one never allows what a smaller one refuses, so at most the amount of the bucket is admitted.
//!   The clock continues at another rate, so that holds across a change of the limit too.
//! - Sliding window: while the window of the left word lasts, the least word is of that window, and
//!   contains at least the usage of the source in it. So each window admits at most the amount. The
//!   weight of the *previous* window may be lost. That does not affect the bound of the algorithm:
//!   `k + 1` amounts in `k` windows.
//! - Fixed window: while the window of the left word lasts, the least word is of a window that
//!   opened at the same time, with at least the same count. So each window admits at most the
//!   amount. Later, the least word may be of another window, which opened before the source
//!   returned and ends before its own window would. There the source has only the part of the
//!   amount for the remaining time ([`taken_over`](crate::algorithm::Algorithm::taken_over)). So
//!   the windows in which a source is admitted never overlap, and each admits no more than its
//!   length allows: in `k` windows of time, at most `k + 2` amounts.
//!
//! # Two CPUs at once
//!
//! A slot is claimed by one compare-and-swap of its tag. If that fails, another CPU has claimed it
//! in between. The packet is then charged to its word anyway, as if the source had been evicted at
//! once. If two CPUs claim two slots for one source, both search again, and the lower slot remains.
//! Each CPU may thereby admit one packet by a word that is not the least.
//!
//! # The cost
//!
//! A source in a full set shares the remaining capacity of the least used slot with others, and is
//! refused ([`DropReason::NoState`]) if there is none. That is no strike, since another source may
//! have used it.

pub mod region;
mod set;
mod tag;

pub use self::{
    region::Region,
    set::{SLOTS, Set, Slot, WORDS, find, least, tag_at, word_at},
    tag::Mix,
};

use crate::{
    AtomicWords, DropReason, Instant, Limit, bits,
    charge::{self, Outcome},
};

/// The slot for charging a source.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Claim {
    /// The slot; meaningless without room.
    pub slot: usize,
    /// Whether the source has just claimed it.
    pub is_new: bool,
    /// Whether a newcomer has room. It does not name the limit.
    pub outcome: Outcome,
}

/// Whether a limit has room for `cost` of the source with this tag, given the slots of its set.
/// Charges nothing.
#[inline(always)]
pub fn check(set: &impl AtomicWords, tag: u64, limit: &Limit, at: Instant, cost: u64) -> Outcome {
    let slot = set::find(set, tag);
    if slot == SLOTS {
        return check_new(set, least_of(set, limit, at), limit, at, cost);
    }
    charge::check_word(limit, set.load(word_at(slot)), at, cost)
}

/// The slot with the [least] debt to a limit.
#[inline(always)]
pub fn least_of(set: &impl AtomicWords, limit: &Limit, at: Instant) -> usize {
    least(set, limit.algorithm().debt_origin(at))
}

/// Whether a limit has room for `cost` of a source without a slot, which would get `least`.
#[inline(always)]
pub fn check_new(
    set: &impl AtomicWords,
    least: usize,
    limit: &Limit,
    at: Instant,
    cost: u64,
) -> Outcome {
    let word = set.load(word_at(least));
    fits(
        limit,
        bits::opaque_ref(limit).algorithm().taken_over(word, at),
        at,
        cost,
    )
}

/// The word that would judge a packet of the source with this tag.
pub fn word_for(set: &impl AtomicWords, tag: u64, limit: &Limit, at: Instant) -> u64 {
    let slot = set::find(set, tag);
    if slot < SLOTS {
        return set.load(word_at(slot));
    }
    let word = set.load(word_at(least_of(set, limit, at)));
    limit.algorithm().taken_over(word, at)
}

/// Charges `cost` to the source with this tag, given the slots of its set, and returns whether it
/// has claimed a slot.
#[inline(always)]
pub fn charge(
    set: &impl AtomicWords,
    tag: u64,
    limit: &Limit,
    at: Instant,
    cost: u64,
) -> (Outcome, bool) {
    let found = set::find(set, tag);
    let claim = if found == SLOTS {
        place_new(set, least_of(set, limit, at), tag, limit, at, cost)
    } else {
        Claim {
            slot: found,
            is_new: false,
            outcome: Outcome::PASSED,
        }
    };
    if claim.outcome.is_refused() {
        return (claim.outcome, claim.is_new);
    }
    let index = word_at(claim.slot);
    let exchange = |current, new| set.compare_exchange(index, current, new);
    let step = |word| limit.step(word, at, cost);
    let outcome = charge::step_word(set.load(index), exchange, step);
    (outcome, claim.is_new)
}

/// Claims the slot `least`, with its word, for a source without one, if that leaves room for
/// `cost`, which is not charged yet.
#[inline(always)]
pub fn place_new(
    set: &impl AtomicWords,
    least: usize,
    tag: u64,
    limit: &Limit,
    at: Instant,
    cost: u64,
) -> Claim {
    let (before, word) = (set.load(tag_at(least)), set.load(word_at(least)));
    let taken_over = bits::opaque_ref(limit).algorithm().taken_over(word, at);
    let mut claim = Claim {
        slot: least,
        is_new: false,
        outcome: fits(limit, taken_over, at, cost),
    };
    if claim.outcome.is_refused() {
        return claim;
    }
    if taken_over != word {
        // Another CPU can only have increased the word.
        let _ = set.compare_exchange(word_at(least), word, taken_over);
    }
    claim.is_new = before != tag && set.compare_exchange(tag_at(least), before, tag).is_ok();
    // Another CPU may have claimed a slot for the same source, or this one for another.
    let found = set::find(set, tag);
    if found < SLOTS {
        claim.slot = found;
    }
    claim
}

/// Whether a newcomer's packet fits. If not, other sources have used the slot, unless the packet
/// exceeds the limit.
#[inline(always)]
fn fits(limit: &Limit, word: u64, at: Instant, cost: u64) -> Outcome {
    if limit.step(word, at, cost).is_ok() {
        Outcome::PASSED
    } else if cost > limit.capacity() {
        Outcome::refused(DropReason::Limited, 0)
    } else {
        Outcome::refused(DropReason::NoState, 0)
    }
}

#[cfg(test)]
mod tests;
