//! The `compact` store: for each limit a region of sets of slots, and in each slot a source's tag and the word of the limit.
//!
//! A source that has no slot in its set takes the one with the least debt, **and its word with it**. This is the idea of Space-Saving
//! (Metwally, Agrawal, El Abbadi, "Efficient computation of frequent and top-k elements in data streams", 2005). So what was
//! used is never forgotten, however many sources are forged: it is only ever counted against somebody else too.
//!
//! # Why eviction gives nobody more than the limit
//!
//! Words have an order, from the least debt to the most ([`debt_origin`](crate::algorithm::Algorithm::debt_origin)), and no step makes one less. A source
//! is evicted from the slot whose word is the least of its set. When it comes back, every word of the set is therefore at
//! least the word that it left, and so is the one that it takes over.
//!
//! - Token bucket: the word is what its clock shows when the bucket is full again. A greater one never allows what a smaller one
//!   refuses, so what is admitted is what the bucket would admit, or less. The clock goes on at another rate, so that holds
//!   across a change of the limit too.
//! - Sliding window: while the window of the word that was left lasts, the least word is of that window, and holds at least
//!   what the source has used in it. What is admitted in each window is at most the amount. What the window *before* weighs may
//!   be forgotten. That leaves the bound of the algorithm as it is: `k + 1` amounts in `k` windows.
//! - Fixed window: while the window that was left lasts, the least word is of a window that opened at the same time, and holds
//!   at least as much. So each window admits at most the amount. Later the least word may be of another window, one that
//!   opened before the source came back and ends before a window of its own would. There the source has only the part of
//!   the amount that is left of the time ([`taken_over`](crate::algorithm::Algorithm::taken_over)). The windows in which a source is admitted thus never
//!   overlap, and each admits no more than its length allows: in `k` windows of time, at most `k + 2` amounts.
//!
//! # Two CPUs at once
//!
//! A slot is claimed by one compare-and-swap of its tag. When that fails, another CPU has claimed it in between: the packet is
//! charged to its word all the same, as if the source had been evicted at once. When two CPUs claim two slots for one source,
//! both look again, and the lower one stays its slot. Each CPU may thereby admit one packet by a word that is not the least.
//!
//! # What it costs
//!
//! A source that comes into a full set shares with others what is left of its least used slot, and is refused
//! ([`DropReason::NoState`]) when nothing is. That is no strike, since somebody else may have used it.

mod policy;
pub mod region;
mod set;
mod tag;

pub use self::{
    policy::{Table, charge_all},
    region::Region,
    set::{SLOTS, Set, Slot, Slots, find, least},
    tag::Mix,
};

use crate::{
    DropReason, Instant, Limit,
    charge::{self, Outcome},
};

/// Where the word of a source is to be charged.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Place {
    /// The slot; without meaning where there is no room.
    pub slot: usize,
    /// Whether the source has claimed it just now.
    pub is_new: bool,
    /// Whether there is room for a newcomer. It does not name the limit.
    pub outcome: Outcome,
}

/// Whether a limit has room for `cost` of the source with this tag, of whose set these are the slots. Nothing is charged.
#[inline(always)]
pub fn check(set: &impl Slots, tag: u64, limit: &Limit, at: Instant, cost: u64) -> Outcome {
    let slot = set::find(set, tag);
    if slot == SLOTS {
        return check_new(set, limit, at, cost);
    }
    charge::check_word(limit, set.word(slot), at, cost)
}

/// The same for a source that has no slot.
#[inline(always)]
pub fn check_new(set: &impl Slots, limit: &Limit, at: Instant, cost: u64) -> Outcome {
    let algorithm = limit.algorithm();
    let slot = set::least(set, algorithm.debt_origin(at));
    fits(limit, algorithm.taken_over(set.word(slot), at), at, cost)
}

/// The word that a packet of the source with this tag would be judged by.
pub fn word_for(set: &impl Slots, tag: u64, limit: &Limit, at: Instant) -> u64 {
    let slot = set::find(set, tag);
    if slot < SLOTS {
        return set.word(slot);
    }
    let algorithm = limit.algorithm();
    let slot = set::least(set, algorithm.debt_origin(at));
    algorithm.taken_over(set.word(slot), at)
}

/// Charges `cost` to the source with this tag, of whose set these are the slots, and says whether it has claimed a slot.
#[inline(always)]
pub fn charge(
    set: &impl Slots,
    tag: u64,
    limit: &Limit,
    at: Instant,
    cost: u64,
) -> (Outcome, bool) {
    let found = set::find(set, tag);
    let place = if found == SLOTS {
        place_new(set, tag, limit, at, cost)
    } else {
        Place {
            slot: found,
            is_new: false,
            outcome: Outcome::PASSED,
        }
    };
    if place.outcome.is_refused() {
        return (place.outcome, place.is_new);
    }
    let algorithm = limit.algorithm();
    let exchange = |current, new| set.exchange_word(place.slot, current, new);
    let step = |word| algorithm.step(word, at, cost);
    let outcome = charge::step_word(set.word(place.slot), exchange, step);
    (outcome, place.is_new)
}

/// Claims a slot, with its word, for a source that has none, if that leaves room for `cost`, which is not charged yet.
#[inline(always)]
pub fn place_new(set: &impl Slots, tag: u64, limit: &Limit, at: Instant, cost: u64) -> Place {
    let algorithm = limit.algorithm();
    let least = set::least(set, algorithm.debt_origin(at));
    let (before, word) = (set.tag(least), set.word(least));
    let taken_over = algorithm.taken_over(word, at);
    let mut place = Place {
        slot: least,
        is_new: false,
        outcome: fits(limit, taken_over, at, cost),
    };
    if place.outcome.is_refused() {
        return place;
    }
    if taken_over != word {
        // Another CPU that changes the word has made it no less.
        let _ = set.exchange_word(least, word, taken_over);
    }
    place.is_new = before != tag && set.exchange_tag(least, before, tag).is_ok();
    // Another CPU may have claimed a slot for the same source, or this one for another.
    let found = set::find(set, tag);
    if found < SLOTS {
        place.slot = found;
    }
    place
}

/// Whether a newcomer's packet fits. If not, it is whoever used what is missing, unless the packet is more than the limit.
#[inline(always)]
fn fits(limit: &Limit, word: u64, at: Instant, cost: u64) -> Outcome {
    if limit.algorithm().step(word, at, cost).is_ok() {
        Outcome::PASSED
    } else if cost > limit.capacity() {
        Outcome::refused(DropReason::Limited, 0)
    } else {
        Outcome::refused(DropReason::NoState, 0)
    }
}

#[cfg(test)]
mod tests;
