//! Checking and charging limits whose state is a word, and those with a log, in subprograms.

use ratelimit_common::{
    Arrival, DropReason, Instant, Limit, Policy, Record, SourceKey,
    algorithm::Algorithm,
    charge::{self, Outcome, Words as _},
    source::LogKey,
};

use crate::{
    map_words::{MapLog, MapWord, RecordWords, record_words},
    maps::FamilyMaps,
    steps::MapSteps,
};

/// [`charge::charge_words`]. Only where another CPU was faster it takes a further call.
#[inline(always)]
pub fn charge_words(policy: &Policy, record: *mut Record, arrival: &Arrival) -> Outcome {
    // The verifier knows which one it is.
    match record_words() {
        1 => charge_1_word(policy, RecordWords(record.cast()), arrival),
        2 => charge_2_words(policy, RecordWords(record.cast()), arrival),
        4 => charge_4_words(policy, RecordWords(record.cast()), arrival),
        _ => charge_8_words(policy, RecordWords(record.cast()), arrival),
    }
}

/// The subprogram for records of this many words, as stated by its argument. The verifier of kernel
/// 6.1 checks all of them, and sees at once which are not called.
macro_rules! of_words {
    ($($function:ident = $words:literal),+) => {$(
        subprogram! {
            fn $function(policy: &Policy, words: RecordWords<$words>; arrival) -> Outcome {
                if record_words() != $words {
                    return Outcome::refused(DropReason::NoState, 0);
                }
                let find = |index, _: &Limit| words.has(index).then(|| words.word(index));
                if let Some(outcome) = charge::charge_two(policy, find, arrival) {
                    return outcome;
                }
                let Some(mut steps) = MapSteps::of_this_cpu() else {
                    return Outcome::refused(DropReason::Contended, 0);
                };
                charge::charge_words(policy, &words, steps.get(), arrival)
            }
        }
    )+};
}

of_words!(
    charge_1_word = 1,
    charge_2_words = 2,
    charge_4_words = 4,
    charge_8_words = 8
);

subprograms! {
    /// [`charge::check_limit`] for a limit whose state is a word.
    pub fn check_word(limit: &Limit, word: MapWord, at: Instant, cost: u64) -> Outcome {
        charge::check_limit(limit, &word, 0, at, cost)
    }
}

/// [`charge::charge_limit`] for a limit whose state is a word.
#[inline(always)]
pub fn charge_word(limit: &Limit, word: MapWord, at: Instant, cost: u64) -> Outcome {
    match limit.algorithm() {
        Algorithm::FixedWindow(_) => charge_fixed_window(limit, word, at, cost),
        Algorithm::SlidingWindow(_) => charge_sliding_window(limit, word, at, cost),
        Algorithm::TokenBucket(_) => charge_token_bucket(limit, word, at, cost),
        Algorithm::SlidingLog(_) => Outcome::refused(DropReason::NoState, 0),
    }
}

subprograms! {
    /// [`Algorithm::counts_for_ns`] of a word.
    pub fn counts_for_ns(limit: &Limit, word: MapWord, at: Instant) -> u64 {
        limit.algorithm().counts_for_ns(word.load(0), at)
    }
}

/// The subprogram of an algorithm. Keeps the stack frame as small as possible.
macro_rules! of_algorithm {
    ($($function:ident = $step:ident),+) => {$(
        subprogram! {
            /// [`charge::charge_word`] by the algorithm that a limit is known to have.
            pub fn $function(limit: &Limit, word: MapWord, at: Instant, cost: u64) -> Outcome {
                charge::charge_word(&word, 0, |state| limit.$step(state, at, cost))
            }
        }
    )+};
}

of_algorithm!(
    charge_fixed_window = step_fixed_window,
    charge_sliding_window = step_sliding_window,
    charge_token_bucket = step_token_bucket
);

/// The log of a limit: the scope of its policy, and its index.
#[derive(Clone, Copy)]
pub struct LogBits(pub u64);

impl LogBits {
    #[inline(always)]
    pub fn new(scope: u32, index: usize) -> Self {
        Self(u64::from(scope) << 32 | index as u64)
    }

    #[inline(always)]
    pub fn key<A: FamilyMaps>(self, source: &A) -> LogKey {
        let key = SourceKey::new(*source, (self.0 >> 32) as u32);
        LogKey::new(&key).of_limit(self.0 as u32)
    }
}

subprograms! {
    /// [`charge::check_limit`] for a sliding log.
    pub fn check_log[check_log_v4, check_log_v6]<A>(
        limit: &Limit, source: &A, log: LogBits, at: Instant
    ) -> Outcome {
        match limit.as_sliding_log() {
            Some(limit) => charge::check_log(limit, &MapLog(&log.key(source)), 0, at),
            None => Outcome::refused(DropReason::NoState, 0),
        }
    }
}

/// [`charge::charge_limit`] for a sliding log.
#[inline(always)]
pub fn charge_log<A: FamilyMaps>(limit: &Limit, source: &A, log: LogBits, at: Instant) -> Outcome {
    charge::until_decided(|| charge_log_of_key(limit, source, log, at))
}

subprograms! {
    /// One attempt: the verifier would follow each.
    fn charge_log_of_key[charge_log_v4, charge_log_v6]<A>(
        limit: &Limit, source: &A, log: LogBits, at: Instant
    ) -> Outcome {
        match limit.as_sliding_log() {
            Some(limit) => charge::try_charge_log(limit, &MapLog(&log.key(source)), 0, at),
            None => Outcome::refused(DropReason::NoState, 0),
        }
    }
}
