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
        let next = limit.step(word, arrival.at, cost).ok()?;
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
    let check = |limit: &Limit, index, cost| {
        Step::plan(limit, arrival, cost, words.load(index), 0).ok_or(Outcome::LIMITED)
    };
    let charge = |limit: &Limit, index, cost, step: Step| {
        if words.compare_exchange(index, step.word, step.next).is_ok() {
            Outcome::PASSED
        } else {
            words.charge(limit, index, arrival.at, cost)
        }
    };
    let limit_at = |index| limit_at(policy, words, index);
    charge_steps(limit_at, check, charge, steps, arrival)
}

/// Charges a packet to the limits that count it, if all have room: `check` works out their steps,
/// which are kept in `steps`, and then `charge` takes them. The outcomes of both do not name the
/// limit.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "the index is masked")]
pub fn charge_steps<'a>(
    limit_at: impl Fn(usize) -> Option<&'a Limit>,
    check: impl Fn(&Limit, usize, u64) -> Result<Step, Outcome>,
    charge: impl Fn(&Limit, usize, u64, Step) -> Outcome,
    steps: &mut Steps,
    arrival: &Arrival,
) -> Outcome {
    // If the compiler knew the first index, it would unroll the loop, which takes more stack.
    for index in hint::black_box(0)..LIMITS_MAX {
        let Some(limit) = limit_at(index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        match check(limit, index, cost) {
            Ok(step) => steps[index & (LIMITS_MAX - 1)] = step,
            Err(outcome) => return outcome.at(index),
        }
    }
    for index in hint::black_box(0)..LIMITS_MAX {
        let Some(limit) = limit_at(index) else {
            break;
        };
        let Some(cost) = limit.cost(arrival) else {
            continue;
        };
        let outcome = charge(limit, index, cost, steps[index & (LIMITS_MAX - 1)]);
        if outcome.is_refused() {
            return outcome.at(index);
        }
    }
    Outcome::PASSED
}
