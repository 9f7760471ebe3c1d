//! Charges all limits with a word in a policy, in a table.

use super::{Claim, SLOTS, Slots, check_new, find, place_new};
use crate::{
    Arrival, DropReason, Instant, Limit, Policy,
    charge::{self, Outcome, Step, Steps},
    limit::LIMITS_MAX,
};

/// The sets of all limits, for one family.
pub trait Table {
    /// A set.
    type Set: Slots;

    /// The set of a limit that contains the slot of the source with this tag. `None` if the table
    /// has no such set. Each limit must have a region, otherwise it would use the first set of
    /// another limit.
    fn set(&self, limit: &Limit, tag: u64) -> Option<Self::Set>;

    /// Calls [`find`] in a way that the verifier continues once, instead of once per slot.
    #[inline(always)]
    fn find(&self, set: &Self::Set, tag: u64, _: Instant) -> usize {
        find(set, tag)
    }

    /// Counts a source that has claimed a slot.
    fn count_new(&self);

    /// Calls [`check_new`], possibly as a subprogram.
    #[inline(always)]
    fn check_new(&self, set: &Self::Set, limit: &Limit, at: Instant, cost: u64) -> Outcome {
        check_new(set, limit, at, cost)
    }

    /// Calls [`place_new`], possibly as a subprogram.
    #[inline(always)]
    fn place_new(&self, set: &Self::Set, tag: u64, limit: &Limit, at: Instant, cost: u64) -> Claim {
        place_new(set, tag, limit, at, cost)
    }

    /// Charges the word of a slot, possibly as a subprogram. The outcome does not name the limit.
    #[inline(always)]
    fn charge(
        &self,
        set: &Self::Set,
        slot: usize,
        limit: &Limit,
        at: Instant,
        cost: u64,
    ) -> Outcome {
        let exchange = |current, new| set.exchange_word(slot, current, new);
        let algorithm = limit.algorithm();
        charge::step_word(set.word(slot), exchange, |word| {
            algorithm.step(word, at, cost)
        })
    }
}

/// Charges a packet of the source with this tag to a policy without logs, like
/// [`charge::charge_words`], with one search per limit.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a slot is at most SLOTS")]
pub fn charge_all(
    policy: &Policy,
    table: &impl Table,
    tag: u64,
    steps: &mut Steps,
    arrival: &Arrival,
) -> Outcome {
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
        let slot = table.find(&set, tag, arrival.at);
        if slot < SLOTS {
            let word = set.word(slot);
            let Some(step) = Step::plan(limit, arrival, cost, word, slot as u64) else {
                return Outcome::LIMITED.at(index);
            };
            steps[index & (LIMITS_MAX - 1)] = step;
        } else {
            let outcome = table.check_new(&set, limit, arrival.at, cost);
            if outcome.is_refused() {
                return outcome.at(index);
            }
            steps[index & (LIMITS_MAX - 1)] = Step::at(SLOTS as u64);
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
        let step = steps[index & (LIMITS_MAX - 1)];
        let mut slot = step.slot as usize;
        if slot & SLOTS != 0 {
            let place = table.place_new(&set, tag, limit, arrival.at, cost);
            if place.is_new {
                table.count_new();
            }
            if place.outcome.is_refused() {
                return place.outcome.at(index);
            }
            slot = place.slot;
        } else if set
            .exchange_word(slot & (SLOTS - 1), step.word, step.next)
            .is_ok()
        {
            continue;
        }
        let outcome = table.charge(&set, slot & (SLOTS - 1), limit, arrival.at, cost);
        if outcome.is_refused() {
            return outcome.at(index);
        }
    }
    Outcome::PASSED
}

const NO_STATE: Outcome = Outcome::refused(DropReason::NoState, 0);
