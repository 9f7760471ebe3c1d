//! Charges limits that all have one word: the charge writes the words that the check has computed.

use core::hint;

use crate::{
    Arrival, Limit, Policy,
    charge::{
        outcome::Outcome,
        words::{Words, limit_at},
    },
    limit::LIMITS_MAX,
};

/// The effect of a packet on the word of a limit.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
#[repr(C)]
pub struct Step {
    /// The word.
    pub word: u64,
    /// The word to write.
    pub next: u64,
    /// The slot, if it was looked up.
    pub slot: u64,
}

impl Step {
    /// A step that was not worked out, of the word in `slot`.
    #[inline(always)]
    pub const fn at(slot: u64) -> Self {
        Self {
            word: 0,
            next: 0,
            slot,
        }
    }

    /// Charges a packet of `cost` to `word`, in slot `slot`. `None` if there is no room.
    #[inline(always)]
    pub fn plan(limit: &Limit, arrival: &Arrival, cost: u64, word: u64, slot: u64) -> Option<Self> {
        let next = limit.algorithm().step(word, arrival.at, cost).ok()?;
        Some(Self {
            word,
            next,
            ..Self::at(slot)
        })
    }
}

/// The steps of a packet, by the indices of limits.
pub type Steps = [Step; LIMITS_MAX];

/// [`charge`](super::charge) for a policy without logs. Only where another CPU was faster, a word
/// is worked out twice.
#[inline(always)]
pub fn charge_words(
    policy: &Policy,
    words: &impl Words,
    steps: &mut Steps,
    arrival: &Arrival,
) -> Outcome {
    // A compiler that knew where to begin would write the loops out, with a stack for each of their
    // turns.
    let first = hint::black_box(0);
    for index in first..LIMITS_MAX {
        let Some(limit) = limit_at(policy, words, index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        let Some(step) = Step::plan(limit, arrival, cost, words.load(index), 0) else {
            return Outcome::LIMITED.at(index);
        };
        steps[index & (LIMITS_MAX - 1)] = step;
    }
    for index in first..LIMITS_MAX {
        let Some(limit) = limit_at(policy, words, index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        let step = steps[index & (LIMITS_MAX - 1)];
        if words.compare_exchange(index, step.word, step.next).is_err() {
            let outcome = words.charge(limit, index, arrival.at, cost);
            if outcome.is_refused() {
                return outcome.at(index);
            }
        }
    }
    Outcome::PASSED
}
