//! Charging the limits of a policy: all that have room, or none.

mod steps;
mod two;

pub use self::{
    steps::{Step, Steps, charge_words},
    two::{Place, Places, charge_two},
};

use crate::{
    DropReason, Instant, Limit, Policy,
    algorithm::{
        Algorithm, Denied,
        sliding_log::{Refused, Ring},
    },
    arrival::Arrival,
    policy::LIMITS_MAX,
};

/// How often a compare-and-swap is tried before the packet is refused. Ignoring the failure would admit 1.94 times the
/// limit on two CPUs.
pub const ATTEMPTS: usize = 4;

/// The state of one source under one policy, shared by all CPUs: a word for each limit, and a ring for each sliding log.
pub trait Words {
    /// The ring of a sliding log.
    type Ring: Ring;

    /// The word at `index`, which is below [`LIMITS_MAX`].
    fn load(&self, index: usize) -> u64;

    /// Puts `new` at `index` if `current` stands there.
    ///
    /// # Errors
    ///
    /// The word that stands there in truth.
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64>;

    /// The ring of the limit at an index; `None` before its first packet, and where there are no sliding logs.
    #[inline(always)]
    fn ring(&self, _: usize) -> Option<Self::Ring> {
        None
    }

    /// The ring of the limit at `index`, made if there is none; `None` when there is no room for it.
    #[inline(always)]
    fn make_ring(&self, index: usize) -> Option<Self::Ring> {
        self.ring(index)
    }

    /// [`check_limit`], wherever its code is kept.
    #[inline(always)]
    fn check(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome
    where
        Self: Sized,
    {
        check_limit(limit, self, index, at, cost)
    }

    /// [`charge_limit`], wherever its code is kept.
    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome
    where
        Self: Sized,
    {
        charge_limit(limit, self, index, at, cost)
    }

    /// [`Algorithm::counts_for_ns`] of the word at `index`, wherever its code is kept.
    #[inline(always)]
    fn counts_for_ns(&self, limit: &Limit, index: usize, at: Instant) -> u64 {
        limit.algorithm().counts_for_ns(self.load(index), at)
    }
}

/// A packet that is refused.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Refusal {
    /// Why.
    pub reason: DropReason,
    /// The index of the limit that refused; 0 where none did.
    pub limit: u8,
}

impl Refusal {
    /// A refusal that no limit decided.
    #[must_use]
    #[inline(always)]
    pub const fn without_limit(reason: DropReason) -> Self {
        Self { reason, limit: 0 }
    }
}

/// Whether limits let a packet pass: an `Option<Result<(), Refusal>>` in one number.
///
/// The verifier follows a number through calls and memory; of an enum, LLVM copies also what is not there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(transparent)]
pub struct Outcome(u32);

/// The index of a limit stands below the reason.
const LIMIT_BITS: u32 = 8;
const LIMIT_MASK: u32 = (1 << LIMIT_BITS) - 1;
/// The reason, plus one.
const REASON_MASK: u32 = 0xff << LIMIT_BITS;
const OBSERVED: u32 = 1 << 16;

impl Outcome {
    /// No limit counts the packet.
    pub const UNCOUNTED: Self = Self(0);

    /// All limits had room.
    pub const PASSED: Self = Self(1);

    /// The first limit has no room.
    pub const LIMITED: Self = Self::refused(DropReason::Limited, 0);

    /// The source has no state and gets none, and the packet passes; see [`new_sources`](crate::new_sources).
    pub const BEYOND_PASSED: Self = Self(2);

    /// The limit at `index` refused the packet.
    #[must_use]
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index is below LIMITS_MAX"
    )]
    pub const fn refused(reason: DropReason, index: usize) -> Self {
        let number = (reason as u32).wrapping_add(1);
        Self(number.wrapping_shl(LIMIT_BITS) | index as u32)
    }

    /// Whether a limit counts the packet.
    #[must_use]
    #[inline(always)]
    pub const fn is_counted(self) -> bool {
        self.0 != Self::UNCOUNTED.0
    }

    /// Whether a limit refused the packet.
    #[must_use]
    #[inline(always)]
    pub const fn is_refused(self) -> bool {
        self.0 & REASON_MASK != 0
    }

    /// Whether the source needed state, and there was no budget for it.
    #[must_use]
    #[inline(always)]
    pub const fn is_beyond(self) -> bool {
        self.0 & REASON_MASK == crate::new_sources::BEYOND.0
    }

    /// The same of a crowd: it passes, and is refused, because its sources have no state of their own.
    #[must_use]
    #[inline(always)]
    pub const fn of_crowd(self) -> Self {
        if self.0 == Self::PASSED.0 {
            Self::BEYOND_PASSED
        } else {
            self.by(DropReason::NewSources)
        }
    }

    /// The one of two outcomes that says more: a refusal, then that a source gets no state, then that limits had room.
    #[must_use]
    #[inline(always)]
    pub const fn or_more(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    /// Whether a limit had no room for the packet.
    #[must_use]
    #[inline(always)]
    pub const fn is_limited(self) -> bool {
        self.0 & REASON_MASK == Self::LIMITED.0 & REASON_MASK
    }

    /// Whether a limit refused the packet that is not a dry run.
    #[must_use]
    #[inline(always)]
    pub const fn is_enforced(self) -> bool {
        self.is_refused() && self.0 & OBSERVED == 0
    }

    /// The same of a policy that is a dry run, or is not.
    #[must_use]
    #[inline(always)]
    pub const fn observed_if(self, observe: bool) -> Self {
        if observe && self.is_refused() {
            Self(self.0 | OBSERVED)
        } else {
            self
        }
    }

    /// The refusal, if it is one.
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "cut off on purpose")]
    pub fn refusal(self) -> Option<Refusal> {
        let number = self.0.wrapping_shr(LIMIT_BITS).wrapping_sub(1) as u8;
        self.is_refused().then_some(Refusal {
            reason: DropReason::from_number(number).unwrap_or(DropReason::NoState),
            limit: self.0 as u8,
        })
    }

    /// The same with `reason` in place of [`DropReason::Limited`].
    #[must_use]
    #[inline(always)]
    pub const fn by(self, reason: DropReason) -> Self {
        if self.is_limited() {
            Self(Self::refused(reason, 0).0 | (self.0 & !REASON_MASK))
        } else {
            self
        }
    }

    /// The same where `limits` others are told before those of the policy.
    #[must_use]
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "both are at most LIMITS_MAX"
    )]
    pub const fn behind(self, limits: usize) -> Self {
        if self.is_refused() {
            Self(self.0.wrapping_add(limits as u32))
        } else {
            self
        }
    }

    /// The same refusal by the limit at `index`.
    #[must_use]
    #[inline(always)]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "an index is below LIMITS_MAX"
    )]
    pub const fn at(self, index: usize) -> Self {
        Self((self.0 & !LIMIT_MASK) | index as u32)
    }

    /// The number, to be handed on.
    #[must_use]
    #[inline(always)]
    pub const fn to_bits(self) -> u32 {
        self.0
    }

    /// The outcome that was handed on.
    #[must_use]
    #[inline(always)]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// Whether a packet would fit if nothing were used, as of a source that was not seen before.
#[must_use]
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

/// Whether all limits have room for a packet, which is not charged; else the first that has none.
#[inline(always)]
pub fn check(policy: &Policy, words: &impl Words, arrival: &Arrival) -> Outcome {
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
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

/// Charges a packet to a source that has state, or says which limit refuses it.
///
/// All limits are read first; only if all have room are they charged. When another CPU takes the last room in between, the
/// packet is refused and what was charged stays charged: never more than the limit, at most a packet a CPU less.
#[inline(always)]
pub fn charge(policy: &Policy, words: &impl Words, arrival: &Arrival) -> Outcome {
    if policy.len() > 1 {
        let outcome = check(policy, words, arrival);
        if outcome.is_refused() {
            return outcome;
        }
    }
    for index in 0..LIMITS_MAX {
        let Some(limit) = policy.limit(index) else {
            break;
        };
        if let Some(cost) = limit.cost(arrival) {
            let outcome = words.charge(limit, index, arrival.at, cost);
            if outcome.is_refused() {
                return outcome.at(index);
            }
        }
    }
    Outcome::PASSED
}

/// Whether the limit at `index` has room for `cost`, which is not charged. The outcome does not name the limit.
#[inline(always)]
pub fn check_limit(
    limit: &Limit,
    words: &impl Words,
    index: usize,
    at: Instant,
    cost: u64,
) -> Outcome {
    let has_room = match limit.algorithm() {
        Algorithm::SlidingLog(log) => words.ring(index).is_none_or(|ring| log.has_room(&ring, at)),
        Algorithm::FixedWindow(_) | Algorithm::SlidingWindow(_) | Algorithm::TokenBucket(_) => {
            return check_word(limit, words.load(index), at, cost);
        }
    };
    if has_room {
        Outcome::PASSED
    } else {
        Outcome::refused(DropReason::Limited, 0)
    }
}

/// Whether a limit has room for `cost` by this word. The outcome does not name the limit.
#[must_use]
#[inline(always)]
pub fn check_word(limit: &Limit, word: u64, at: Instant, cost: u64) -> Outcome {
    if limit.algorithm().step(word, at, cost).is_ok() {
        Outcome::PASSED
    } else {
        Outcome::refused(DropReason::Limited, 0)
    }
}

/// Charges `cost` to the limit at `index`. The outcome does not name the limit.
#[inline(always)]
pub fn charge_limit(
    limit: &Limit,
    words: &impl Words,
    index: usize,
    at: Instant,
    cost: u64,
) -> Outcome {
    let algorithm = limit.algorithm();
    if let Algorithm::SlidingLog(log) = algorithm {
        let Some(ring) = words.make_ring(index) else {
            return Outcome::refused(DropReason::NoState, 0);
        };
        return match log.charge(&ring, at) {
            Ok(()) => Outcome::PASSED,
            Err(Refused::Denied) => Outcome::refused(DropReason::Limited, 0),
            Err(Refused::Contended) => Outcome::refused(DropReason::Contended, 0),
        };
    }
    charge_word(words, index, |word| algorithm.step(word, at, cost))
}

/// Puts what `step` makes of the word at `index` in its place. The outcome does not name the limit.
#[inline(always)]
pub fn charge_word(
    words: &impl Words,
    index: usize,
    step: impl Fn(u64) -> Result<u64, Denied>,
) -> Outcome {
    let exchange = |current, new| words.compare_exchange(index, current, new);
    step_word(words.load(index), exchange, step)
}

/// The same with a single try; `None` where another CPU was faster, and nothing is charged.
#[inline(always)]
pub fn try_word(
    words: &impl Words,
    index: usize,
    step: impl Fn(u64) -> Result<u64, Denied>,
) -> Option<Outcome> {
    let word = words.load(index);
    let Ok(next) = step(word) else {
        return Some(Outcome::refused(DropReason::Limited, 0));
    };
    let exchanged = words.compare_exchange(index, word, next);
    exchanged.is_ok().then_some(Outcome::PASSED)
}

/// Puts what `step` makes of a word in its place. `word` is what was read there.
#[inline(always)]
pub fn step_word(
    mut word: u64,
    exchange: impl Fn(u64, u64) -> Result<(), u64>,
    step: impl Fn(u64) -> Result<u64, Denied>,
) -> Outcome {
    for _ in 0..ATTEMPTS {
        let Ok(next) = step(word) else {
            return Outcome::refused(DropReason::Limited, 0);
        };
        match exchange(word, next) {
            Ok(()) => return Outcome::PASSED,
            Err(actual) => word = actual,
        }
    }
    Outcome::refused(DropReason::Contended, 0)
}

#[cfg(test)]
mod tests;
