//! Charging limits whose state is a word.

use core::hint;

use ratelimit_common::{
    Arrival, DropReason, Instant, Limit, Policy, Record,
    algorithm::{Algorithm, Denied},
    charge::{self, Outcome, Words},
};

use super::{NOTHING, decode, encode, pack, unpack};
use crate::{
    map_words::{MapWord, RecordWords, record_words},
    steps::MapSteps,
};

/// [`charge::charge_words`]. Only where another CPU was faster it takes a further call.
#[inline(always)]
pub fn charge_words(policy: &Policy, record: *mut Record, arrival: &Arrival) -> Outcome {
    let (at_ns, packet) = (arrival.at.as_nanos(), pack(arrival));
    // The verifier knows which one it is.
    decode(match record_words() {
        1 => charge_limit_word(policy, record.cast(), at_ns, packet),
        2 => charge_2_limit_words(policy, record.cast(), at_ns, packet),
        4 => charge_4_limit_words(policy, record.cast(), at_ns, packet),
        _ => charge_8_limit_words(policy, record.cast(), at_ns, packet),
    })
}

/// The subprogram for records of so many words: its argument says how long they are. The verifier of kernel 6.1 looks at all of them, and sees
/// at once which are not called.
macro_rules! of_words {
    ($($function:ident = $words:literal),+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $function(
            policy: *const Policy,
            record: *mut [u64; $words],
            at_ns: u64,
            packet: u64,
        ) -> u64 {
            // SAFETY: the verifier holds callers to memory of these types, or null.
            let Some(policy) = (unsafe { policy.as_ref() }) else {
                return NOTHING;
            };
            if record.is_null() || record_words() != $words {
                return NOTHING;
            }
            let (words, arrival) = (RecordWords(record), unpack(at_ns, packet));
            if let Some(outcome) = charge::charge_two(policy, &words, &arrival) {
                return encode(outcome);
            }
            let Some(mut steps) = MapSteps::of_this_cpu() else {
                return encode(Outcome::refused(DropReason::Contended, 0));
            };
            encode(charge::charge_words(policy, &words, &mut steps, &arrival))
        }
    )+};
}

of_words!(
    charge_limit_word = 1,
    charge_2_limit_words = 2,
    charge_4_limit_words = 4,
    charge_8_limit_words = 8
);

/// [`charge::check_limit`] for a limit whose state is a word.
#[inline(always)]
pub fn check_word(limit: &Limit, word: *mut u64, at: Instant, cost: u64) -> Outcome {
    decode(check_limit_word(limit, word, at.as_nanos(), cost))
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn check_limit_word(limit: *const Limit, word: *mut u64, at_ns: u64, cost: u64) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return NOTHING;
    };
    if word.is_null() {
        return NOTHING;
    }
    let at = Instant::from_nanos(at_ns);
    encode(charge::check_limit(limit, &MapWord(word), 0, at, cost))
}

/// [`charge::charge_limit`] for a limit whose state is a word.
#[inline(always)]
pub fn charge_word(limit: &Limit, word: *mut u64, at: Instant, cost: u64) -> Outcome {
    decode(match limit.algorithm() {
        Algorithm::FixedWindow(_) => charge_fixed_window(limit, word, at.as_nanos(), cost),
        Algorithm::SlidingWindow(_) => charge_sliding_window(limit, word, at.as_nanos(), cost),
        Algorithm::TokenBucket(_) => charge_token_bucket(limit, word, at.as_nanos(), cost),
        Algorithm::SlidingLog(_) => NOTHING,
    })
}

/// The same for a limit that is known to be a fixed window.
#[inline(always)]
pub fn charge_window(limit: &Limit, word: *mut u64, at: Instant, cost: u64) -> Outcome {
    decode(charge_fixed_window(limit, word, at.as_nanos(), cost))
}

/// [`Algorithm::counts_for_ns`] of a word.
#[inline(always)]
pub fn counts_for_ns(limit: &Limit, word: *mut u64, at: Instant) -> u64 {
    word_counts_for_ns(limit, word, at.as_nanos())
}

#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn word_counts_for_ns(limit: *const Limit, word: *mut u64, at_ns: u64) -> u64 {
    // SAFETY: as above.
    let Some(limit) = (unsafe { limit.as_ref() }) else {
        return 0;
    };
    if word.is_null() {
        return 0;
    }
    let state = MapWord(word).load(0);
    limit
        .algorithm()
        .counts_for_ns(state, Instant::from_nanos(at_ns))
}

/// The subprogram of an algorithm: what it charges has a frame of its own, as short as can be.
macro_rules! of_algorithm {
    ($($function:ident = $algorithm:ident),+) => {$(
        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $function(limit: *const Limit, word: *mut u64, at_ns: u64, cost: u64) -> u64 {
            // SAFETY: as above.
            let Some(limit) = (unsafe { limit.as_ref() }) else {
                return NOTHING;
            };
            if word.is_null() {
                return NOTHING;
            }
            let step = |state| {
                // What a compiler knew to be the same at each attempt, it would keep on the stack.
                let Some(algorithm) = hint::black_box(limit).$algorithm() else {
                    return Err(Denied);
                };
                algorithm.step(state, Instant::from_nanos(at_ns), cost)
            };
            encode(charge::charge_word(&MapWord(word), 0, step))
        }
    )+};
}

of_algorithm!(
    charge_fixed_window = as_fixed_window,
    charge_sliding_window = as_sliding_window,
    charge_token_bucket = as_token_bucket
);
