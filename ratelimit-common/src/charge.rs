//! Charging the limits of a policy: all that have room, or none.

pub mod outcome;
mod steps;
mod two;
pub mod words;

pub use self::{
    outcome::{Outcome, Refusal},
    steps::{Step, Steps, charge_steps, charge_words},
    two::charge_two,
    words::{
        Words, charge_limit, charge_log, charge_word, check_limit, check_log, check_word,
        step_word, try_charge_log, until_decided,
    },
};

use crate::{Arrival, DropReason, Policy, bits, limit::LIMITS_MAX};

/// Whether a packet would fit if nothing were used, as of a source that was not seen before.
#[inline(always)]
pub fn fits(policy: &Policy, arrival: &Arrival) -> Outcome {
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        if limit
            .cost(arrival)
            .is_some_and(|cost| cost > limit.capacity())
        {
            return Outcome::refused(DropReason::Limited, index);
        }
    }
    Outcome::PASSED
}

/// Checks whether all limits have room for a packet, without charging it. Fails with the first
/// limit that has none.
#[inline(always)]
pub fn check(policy: &Policy, words: &impl Words, arrival: &Arrival) -> Outcome {
    for index in 0..LIMITS_MAX {
        // Read again: where its limits are would be kept on the stack.
        let policy = bits::opaque_ref(policy);
        let Some(limit) = words::limit_at(policy, words, index) else {
            break;
        };
        if let Some(cost) = limit.cost(arrival) {
            let outcome = words.check(limit, index, arrival.at, cost);
            if outcome.is_refused() {
                return outcome.at(index);
            }
        }
    }
    Outcome::PASSED
}

/// Charges a packet to a source with state, or returns the limit that refuses it.
///
/// All limits are read first, and charged only if all have room. If another CPU takes the last room
/// in between, the packet is refused, and limits that were already charged stay charged. So never
/// more than the limit is admitted, and at most a packet per CPU less.
#[inline(always)]
pub fn charge(policy: &Policy, words: &impl Words, arrival: &Arrival) -> Outcome {
    if policy.has_several() {
        let outcome = check(policy, words, arrival);
        if outcome.is_refused() {
            return outcome;
        }
    }
    for index in 0..LIMITS_MAX {
        // Read again: where its limits are would be kept on the stack.
        let policy = bits::opaque_ref(policy);
        let Some(limit) = words::limit_at(policy, words, index) else {
            break;
        };
        if let Some(cost) = limit.cost(arrival) {
            let outcome = words.charge(limit, index, arrival.at, cost);
            if outcome.is_refused() {
                return outcome.at(index);
            }
        }
        if !policy.has_several() {
            break;
        }
    }
    Outcome::PASSED
}

#[cfg(test)]
mod tests;
