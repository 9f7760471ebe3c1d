//! All limits of a policy at once: those that have a word, in a table.

use super::{Place, SLOTS, Slots, check_new, find_at_once, place_new};
use crate::{
    Arrival, DropReason, Instant, Limit, Policy,
    charge::{self, Outcome},
    policy::LIMITS_MAX,
};

/// The sets of all limits, for one family.
pub trait Table {
    /// A set.
    type Set: Slots;

    /// The set of a limit in which the source with this tag has its slot; `None` for a limit without a region.
    fn set(&self, limit: &Limit, tag: u64) -> Option<Self::Set>;

    /// Counts a source that has claimed a slot.
    fn count_new(&self);

    /// [`check_new`], wherever its code is kept.
    #[inline(always)]
    fn check_new(&self, set: &Self::Set, limit: &Limit, at: Instant, cost: u64) -> Outcome {
        check_new(set, limit, at, cost)
    }

    /// [`place_new`], wherever its code is kept.
    #[inline(always)]
    fn place_new(&self, set: &Self::Set, tag: u64, limit: &Limit, at: Instant, cost: u64) -> Place {
        place_new(set, tag, limit, at, cost)
    }
}

/// The slots of a source under each limit, in so many bits each: what [`find_at_once`] answers.
const PLACE_BITS: u32 = 4;

/// Charges a packet of the source with this tag to a policy without logs: as [`charge::charge`] does with its words, with one
/// search for each limit.
#[inline(always)]
#[expect(
    clippy::cast_possible_truncation,
    reason = "an index is below LIMITS_MAX, a slot at most SLOTS"
)]
pub fn charge_all(policy: &Policy, table: &impl Table, tag: u64, arrival: &Arrival) -> Outcome {
    let at = arrival.at;
    // A verifier that knew a 0 would follow each set of limits that count a packet by itself.
    let mut places = policy.zero();
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        let Some(set) = table.set(limit, tag) else {
            return NO_STATE.at(index);
        };
        let slot = find_at_once(&set, tag);
        places |= (slot as u32).wrapping_shl(PLACE_BITS.wrapping_mul(index as u32));
        if policy.len() == 1 {
            break;
        }
        let outcome = if slot < SLOTS {
            charge::check_word(limit, set.word(slot), at, cost)
        } else {
            table.check_new(&set, limit, at, cost)
        };
        if outcome.is_refused() {
            return outcome.at(index);
        }
    }
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        let Some(set) = table.set(limit, tag) else {
            return NO_STATE.at(index);
        };
        let mut slot = places.wrapping_shr(PLACE_BITS.wrapping_mul(index as u32)) as usize;
        if slot & SLOTS != 0 {
            let place = table.place_new(&set, tag, limit, at, cost);
            if place.is_new {
                table.count_new();
            }
            if place.outcome.is_refused() {
                return place.outcome.at(index);
            }
            slot = place.slot;
        }
        let slot = slot & (SLOTS - 1);
        let exchange = |current, new| set.exchange_word(slot, current, new);
        let algorithm = limit.algorithm();
        let outcome = charge::step_word(set.word(slot), exchange, |word| {
            algorithm.step(word, at, cost)
        });
        if outcome.is_refused() {
            return outcome.at(index);
        }
    }
    Outcome::PASSED
}

const NO_STATE: Outcome = Outcome::refused(DropReason::NoState, 0);
