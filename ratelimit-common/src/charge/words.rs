//! The state of a source, for its limits.

use crate::{
    Arrival, AtomicWords, DropReason, Instant, Limit, Policy,
    algorithm::{Algorithm, Denied, SlidingLog, sliding_log::Refused},
    charge::outcome::Outcome,
    compare_and_swap::{ATTEMPTS, retry},
    store,
};

/// The state of one source under one policy, shared by all CPUs: a word for each limit, and a ring
/// for each sliding log.
pub trait Words: Sized {
    /// The ring of a sliding log.
    type Ring: AtomicWords;

    /// The word at `index`, which is below [`LIMITS_MAX`](crate::limit::LIMITS_MAX).
    fn load(&self, index: usize) -> u64;

    /// Writes `new` at `index` if the current word is `current`.
    ///
    /// # Errors
    ///
    /// The current word.
    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64>;

    /// Whether there is a word at `index`. Limits behind the last one are not judged: while records
    /// are made larger, the program that still runs has the smaller ones.
    #[inline(always)]
    fn has(&self, _: usize) -> bool {
        true
    }

    /// The ring of the limit at an index; `None` before its first packet, and where there are no
    /// sliding logs.
    #[inline(always)]
    fn ring(&self, _: usize) -> Option<Self::Ring> {
        None
    }

    /// Returns the ring of the limit at `index`, and creates it if necessary. `None` if there is no
    /// room.
    #[inline(always)]
    fn make_ring(&self, index: usize) -> Option<Self::Ring> {
        self.ring(index)
    }

    /// [`check_limit`], wherever its code is kept.
    #[inline(always)]
    fn check(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        check_limit(limit, self, index, at, cost)
    }

    /// [`charge_limit`], wherever its code is kept.
    #[inline(always)]
    fn charge(&self, limit: &Limit, index: usize, at: Instant, cost: u64) -> Outcome {
        charge_limit(limit, self, index, at, cost)
    }

    /// [`Algorithm::counts_for_ns`] of the word at `index`, wherever its code is kept.
    #[inline(always)]
    fn counts_for_ns(&self, limit: &Limit, index: usize, at: Instant) -> u64 {
        limit.algorithm().counts_for_ns(self.load(index), at)
    }

    /// Whether the state of the limit at `index` is the source's own.
    #[inline(always)]
    fn has_own(&self, _: usize, _: &Limit) -> bool {
        true
    }

    /// [`store::is_own`], wherever its code is kept.
    #[inline(always)]
    fn is_own(&self, policy: &Policy, arrival: &Arrival) -> bool {
        store::is_own(self, policy, arrival)
    }

    /// Charges the only limit of a policy, a fixed window.
    #[inline(always)]
    fn charge_fixed_window(&self, limit: &Limit, arrival: &Arrival) -> Outcome {
        self.charge(limit, 0, arrival.at, limit.cost_of_counted(arrival))
    }

    /// [`charge`](super::charge) for a policy without logs.
    #[inline(always)]
    fn charge_words(&self, policy: &Policy, arrival: &Arrival) -> Outcome {
        super::charge(policy, self, arrival)
    }
}

/// The limit at `index`, where that has a word; `None` past the last.
#[inline(always)]
pub fn limit_at<'a>(policy: &'a Policy, words: &impl Words, index: usize) -> Option<&'a Limit> {
    policy.limit(index).filter(|_| words.has(index))
}

/// Whether the limit at `index` has room for `cost`, which is not charged. The outcome does not
/// name the limit.
#[inline(always)]
pub fn check_limit(
    limit: &Limit,
    words: &impl Words,
    index: usize,
    at: Instant,
    cost: u64,
) -> Outcome {
    match limit.algorithm() {
        Algorithm::SlidingLog(log) => check_log(log, words, index, at),
        Algorithm::FixedWindow(_) | Algorithm::SlidingWindow(_) | Algorithm::TokenBucket(_) => {
            check_word(limit, words.load(index), at, cost)
        }
    }
}

/// Whether the sliding log at `index` has room for a packet. The outcome does not name the limit.
#[inline(always)]
pub fn check_log(log: SlidingLog, words: &impl Words, index: usize, at: Instant) -> Outcome {
    if words.ring(index).is_none_or(|ring| log.has_room(&ring, at)) {
        Outcome::PASSED
    } else {
        Outcome::refused(DropReason::Limited, 0)
    }
}

/// Whether a limit has room for `cost` by this word. The outcome does not name the limit.
#[inline(always)]
pub fn check_word(limit: &Limit, word: u64, at: Instant, cost: u64) -> Outcome {
    if limit.step(word, at, cost).is_ok() {
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
    if let Some(log) = limit.as_sliding_log() {
        return charge_log(log, words, index, at);
    }
    charge_word(words, index, |word| limit.step(word, at, cost))
}

/// Charges a packet to the sliding log at `index`. The outcome does not name the limit.
#[inline(always)]
pub fn charge_log(log: SlidingLog, words: &impl Words, index: usize, at: Instant) -> Outcome {
    until_decided(|| try_charge_log(log, words, index, at))
}

/// One attempt of [`charge_log`].
#[inline(always)]
pub fn try_charge_log(log: SlidingLog, words: &impl Words, index: usize, at: Instant) -> Outcome {
    let Some(ring) = words.make_ring(index) else {
        return Outcome::refused(DropReason::NoState, 0);
    };
    match log.try_charge(&ring, at) {
        Ok(()) => Outcome::PASSED,
        Err(Refused::Denied) => Outcome::refused(DropReason::Limited, 0),
        Err(Refused::Contended) => CONTENDED,
    }
}

/// The outcome of the first attempt in which no other CPU interfered.
#[inline(always)]
pub fn until_decided(attempt: impl Fn() -> Outcome) -> Outcome {
    let decided = || Some(attempt()).filter(|outcome| *outcome != CONTENDED);
    retry(ATTEMPTS, decided).unwrap_or(CONTENDED)
}

const CONTENDED: Outcome = Outcome::refused(DropReason::Contended, 0);

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
    CONTENDED
}
