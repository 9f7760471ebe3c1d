//! Token bucket, as the generic cell rate algorithm (ITU-T I.371): a burst at once, and a rate for good.
//!
//! A bucket holds `burst` tokens, is full for a new source, and is filled with `amount` tokens a `window`, evenly. A packet
//! takes its cost out, and is denied when there is less. The state is one word, the theoretical arrival time: when the bucket
//! will be full again. What is taken is the time from now until then.
//!
//! # Exactness
//!
//! Time is counted in parts of a nanosecond, so small that a tick and the time that a token takes to flow in are both whole
//! numbers of them: at 3 tokens in 10 ns, a part is a third of a nanosecond and a token takes 10. So no fraction of a token
//! is ever lost, and there is nothing to round: the answer is that of rational arithmetic. A tick is a nanosecond where that
//! leaves a word 2^61 ns, 73 years, of time; where the rate has too large a numerator for that, it is a power of two of them
//! that divides the time of a token, and never more than a thousandth of it. Where no such tick leaves so much, a word has
//! 2^52 ns, 52 days, and a tick is never more than a thousandth of the time in which the bucket fills.
//!
//! # Wrapping
//!
//! Times are compared by their difference, so only what lies 73 years in the past, or 52 days, can be taken for
//! something else: a source that was silent for a multiple of that time, to the time in which its bucket fills, could find
//! its old level. It would be given less then, and never more.
//!
//! A packet may be stamped before another one that was judged first: CPUs read their clocks some time before they reach the
//! word. Up to [`EARLY_NS`] before, it is judged at its own time: what has flowed in since is not there for it yet.

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::Denied;
use crate::Instant;

/// The word wraps after this time, or later.
const HORIZON_BITS: u32 = 52;

/// The time after which it wraps where a token takes many ticks.
const HORIZON_BITS_WANTED: u32 = 61;

/// How far back time may go.
pub const EARLY_NS: u64 = 1 << EARLY_BITS;
const EARLY_BITS: u32 = 32;

/// Parts in which a full bucket may be taken: a sixteenth of the word, so that a word is seldom taken for another.
const CAPACITY_MAX: u64 = 1 << 60;

/// The longest tick: longer ones would not leave `parts_per_tick` 32 bits.
const TICK_SHIFT_MAX: u32 = 20;

/// A bucket takes at least so many ticks to fill, where a tick is more than a nanosecond.
const TICKS_MIN: u64 = 1000;

/// The parameters of a token bucket.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct TokenBucket {
    burst: u64,
    parts_per_token: u64,
    parts_per_tick: u32,
    tick_shift: u32,
}

/// Why a token bucket cannot be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum TokenBucketError {
    /// No token would ever flow in.
    ZeroAmount,
    /// No packet would ever fit.
    ZeroBurst,
    /// One word cannot hold this rate without rounding.
    Inexact {
        /// The next smaller amount, rounded in decimal, that it can hold; 0 when there is none.
        amount_fits: u64,
    },
    /// The bucket takes too long to fill.
    BurstTooLarge {
        /// The largest burst at this rate.
        burst_max: u64,
    },
}

impl TokenBucket {
    /// A bucket of `burst` tokens into which `amount` flow in each `window`.
    ///
    /// # Errors
    ///
    /// See [`TokenBucketError`].
    pub fn new(amount: u64, window: Duration, burst: u64) -> Result<Self, TokenBucketError> {
        if amount == 0 {
            return Err(TokenBucketError::ZeroAmount);
        }
        if burst == 0 {
            return Err(TokenBucketError::ZeroBurst);
        }
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let Some(finest) = ticks(amount, window_ns) else {
            let amount_fits = rounder(amount)
                .find(|amount| ticks(*amount, window_ns).is_some())
                .unwrap_or(0);
            return Err(TokenBucketError::Inexact { amount_fits });
        };
        let burst_max =
            |(parts_per_token, ..): &Ticks| CAPACITY_MAX.checked_div(*parts_per_token).unwrap_or(0);
        let coarser = core::iter::successors(Some(finest), double);
        let Some((parts_per_token, parts_per_tick, tick_shift)) =
            coarser.clone().find(|ticks| burst <= burst_max(ticks))
        else {
            let burst_max = coarser.map(|ticks| burst_max(&ticks)).max().unwrap_or(0);
            return Err(TokenBucketError::BurstTooLarge { burst_max });
        };
        let fills_in_ticks = burst
            .saturating_mul(parts_per_token)
            .checked_div(parts_per_tick.into())
            .unwrap_or(0);
        if tick_shift > 0 && fills_in_ticks < TICKS_MIN {
            let amount_fits = rounder(amount)
                .find(|amount| {
                    let finest = ticks_until(HORIZON_BITS, *amount, window_ns);
                    finest.is_some_and(|ticks| ticks.2 == 0)
                })
                .unwrap_or(0);
            return Err(TokenBucketError::Inexact { amount_fits });
        }
        Ok(Self {
            burst,
            parts_per_token,
            parts_per_tick,
            tick_shift,
        })
    }

    /// What a full bucket holds.
    #[must_use]
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// The length of a tick, in nanoseconds.
    #[must_use]
    pub const fn tick_ns(&self) -> u64 {
        1u64.wrapping_shl(self.tick_shift)
    }

    /// The state after a packet of `cost` at `now`.
    ///
    /// # Errors
    ///
    /// [`Denied`] when the bucket holds less than `cost`.
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, cost: u64) -> Result<u64, Denied> {
        // What may be taken already. With `cost <= burst` neither product exceeds `CAPACITY_MAX`.
        let tokens = self.burst.checked_sub(cost).ok_or(Denied)?;
        let now = self.parts(now);
        let taken = self.taken(word, now);
        if taken > tokens.wrapping_mul(self.parts_per_token) {
            return Err(Denied);
        }
        let charge = cost.wrapping_mul(self.parts_per_token);
        Ok(now.wrapping_add(taken).wrapping_add(charge))
    }

    /// What is missing in the bucket at `now`, rounded up to whole tokens.
    #[must_use]
    pub fn used(&self, word: u64, now: Instant) -> u64 {
        let taken = self.taken(word, self.parts(now));
        let part = taken.checked_rem(self.parts_per_token).unwrap_or(0);
        let whole = taken.checked_div(self.parts_per_token).unwrap_or(0);
        whole.saturating_add(u64::from(part > 0)).min(self.burst)
    }

    /// The word behind the last that a bucket could have at `now`.
    #[inline(always)]
    pub(super) fn debt_origin(&self, now: Instant) -> u64 {
        let ahead = self.capacity().wrapping_add(self.early());
        self.parts(now).wrapping_add(ahead).wrapping_add(1)
    }

    /// The time after which any bucket is full.
    pub(super) fn forgets_in_ns(&self) -> u64 {
        let ticks = self.capacity().checked_div(self.parts_per_tick.into());
        let ticks = ticks.unwrap_or(0).saturating_add(2);
        ticks
            .saturating_mul(self.tick_ns())
            .saturating_add(EARLY_NS)
    }

    /// A word says when, in parts, and what a token is worth in them.
    pub(super) const fn meaning(&self) -> [u64; 3] {
        [
            self.parts_per_token,
            self.parts_per_tick as u64,
            self.tick_shift as u64,
        ]
    }

    /// How long the bucket takes to fill from how it is, in parts.
    #[inline(always)]
    fn taken(&self, word: u64, now: u64) -> u64 {
        let ahead = word.wrapping_sub(now);
        if word != 0 && ahead <= self.capacity().wrapping_add(self.early()) {
            ahead
        } else {
            0
        }
    }

    /// `EARLY_NS` in parts: at most 2^44, as `parts_per_tick` is at most 2^(64 - `HORIZON_BITS` + `tick_shift`).
    #[inline(always)]
    fn early(&self) -> u64 {
        u64::from(self.parts_per_tick).wrapping_shl(EARLY_BITS.wrapping_sub(self.tick_shift))
    }

    /// How long an empty bucket takes to fill, in parts: at most `CAPACITY_MAX`.
    #[inline(always)]
    const fn capacity(&self) -> u64 {
        self.burst.wrapping_mul(self.parts_per_token)
    }

    /// The time in parts. It is odd, and what is added to it even, so that no word is 0.
    #[inline(always)]
    fn parts(&self, now: Instant) -> u64 {
        now.as_nanos()
            .wrapping_shr(self.tick_shift)
            .wrapping_mul(self.parts_per_tick.into())
            | 1
    }
}

/// Parts a token, parts a tick, and the tick as a power of two of nanoseconds.
type Ticks = (u64, u32, u32);

/// The shortest tick with which `amount` tokens in `window_ns` can be kept exactly.
fn ticks(amount: u64, window_ns: u64) -> Option<Ticks> {
    let is_short = |(parts_per_token, parts_per_tick, _): &Ticks| {
        let tick = u64::from(*parts_per_tick).saturating_mul(TICKS_MIN);
        tick <= *parts_per_token
    };
    let wanted = ticks_until(HORIZON_BITS_WANTED, amount, window_ns).filter(is_short);
    wanted.or_else(|| ticks_until(HORIZON_BITS, amount, window_ns))
}

/// The shortest tick of which a word has 2^`horizon_bits` ns.
fn ticks_until(horizon_bits: u32, amount: u64, window_ns: u64) -> Option<Ticks> {
    let divisor = gcd(amount, window_ns);
    let parts_per_token = window_ns.checked_div(divisor)?;
    let parts_per_ns = amount.checked_div(divisor)?;
    (0..=parts_per_token.trailing_zeros().min(TICK_SHIFT_MAX)).find_map(|shift| {
        let parts_per_tick = u32::try_from(parts_per_ns.checked_mul(2)?).ok()?;
        let bits = u64::BITS.saturating_sub(horizon_bits).saturating_add(shift);
        let parts_per_token = parts_per_token.wrapping_shr(shift).checked_mul(2)?;
        (u64::from(parts_per_tick) <= 1u64.wrapping_shl(bits)).then_some((
            parts_per_token,
            parts_per_tick,
            shift,
        ))
    })
}

/// The same with a tick of twice the length, where that is as exact.
fn double((parts_per_token, parts_per_tick, tick_shift): &Ticks) -> Option<Ticks> {
    let is_whole = parts_per_token.trailing_zeros() > 1 && *tick_shift < TICK_SHIFT_MAX;
    is_whole.then_some((
        parts_per_token.wrapping_shr(1),
        *parts_per_tick,
        tick_shift.wrapping_add(1),
    ))
}

/// `amount` with more and more decimal digits rounded down.
fn rounder(amount: u64) -> impl Iterator<Item = u64> {
    let steps = core::iter::successors(Some(10u64), |step| step.checked_mul(10));
    steps
        .map(move |step| amount.saturating_sub(amount.checked_rem(step).unwrap_or(0)))
        .take_while(|amount| *amount > 0)
}

/// The greatest common divisor (Euclid, Elements VII.2).
fn gcd(mut left: u64, mut right: u64) -> u64 {
    while let Some(rest) = left.checked_rem(right) {
        (left, right) = (right, rest);
    }
    left
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "arrivals need not be exact"
)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const ODD_TIMES: [u64; 10] = [
        0,
        1 << 31,
        (1 << 32) - 1,
        1 << 32,
        (1 << 32) + 1,
        1 << 52,
        1 << 56,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX - 3 * SECOND,
    ];

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate() {
        check(
            (10, SECOND, 3),
            &[
                (0, 1, true),
                (0, 1, true),
                (5, 1, true),
                (6, 1, false),
                (SECOND / 10 - 1, 1, false),
                (SECOND / 10, 1, true),
                (SECOND / 5 - 1, 1, false),
                (SECOND / 5, 1, true),
                (SECOND, 3, true),
                (SECOND, 1, false),
            ],
        );
    }

    /// A word of 997 in seven days wrapped after 107 days, so this source found its bucket empty.
    #[test]
    fn a_long_window_is_forgotten_however_long_the_silence_is() {
        const DAY: u64 = 86_400 * SECOND;
        for amount in [1, 7, 997, 1_000, 65_521, 100_000] {
            let bucket = TokenBucket::new(amount, Duration::from_hours(7 * 24), amount).unwrap();
            let start = 5 * SECOND;
            let word = bucket.step(0, Instant::from_nanos(start), amount).unwrap();
            assert!(bucket.tick_ns() < 100_000);
            for days in 8..3_000 {
                let later = Instant::from_nanos(start + days * DAY);
                assert_eq!(bucket.used(word, later), 0, "{amount}: {days} days");
            }
        }
    }

    #[test]
    fn no_third_of_a_nanosecond_is_lost() {
        let bucket = TokenBucket::new(3, Duration::from_millis(10), 2).unwrap();
        let mut word = bucket.step(0, Instant::from_nanos(0), 2).unwrap();
        for packet in 1..1_000_000u64 {
            let due = (packet * 10_000_000).div_ceil(3);
            let early = bucket.step(word, Instant::from_nanos(due - 1), 1);
            assert_eq!(early, Err(Denied), "{packet}");
            word = bucket.step(word, Instant::from_nanos(due), 1).unwrap();
        }
    }

    #[test]
    fn a_packet_that_does_not_fit_leaves_the_rest_for_a_smaller_one() {
        check(
            (100, SECOND, 100),
            &[(0, 60, true), (0, 60, false), (0, 40, true), (0, 1, false)],
        );
    }

    #[test]
    fn a_cost_near_the_top_of_u64_is_denied_and_does_not_wrap() {
        let costs = [u64::MAX, u64::MAX / 2, 1 << 63, 1 << 32, 101];
        for cost in costs {
            check((100, SECOND, 100), &[(0, cost, false), (9, 100, true)]);
            check((100, SECOND, 100), &[(0, 100, true), (9, cost, false)]);
        }
    }

    #[test]
    fn a_packet_stamped_before_another_one_is_given_nothing_for_it() {
        let at = 7 * SECOND;
        for early in [1, 50, SECOND / 2, SECOND / 2 + 1, SECOND, EARLY_NS] {
            check(
                (2, SECOND, 3),
                &[
                    (at, 1, true),
                    (at - early, 1, early <= SECOND / 2),
                    (at - early, 1, false),
                    (at + SECOND, 3, true),
                    (at + SECOND - early, 1, false),
                    (at + SECOND, 1, false),
                ],
            );
        }
    }

    #[test]
    fn odd_times_are_times_like_others() {
        for base in ODD_TIMES {
            for amount in [1, 3, 1000, 999_999, 1_000_000_000_000] {
                let bucket = TokenBucket::new(amount, Duration::from_secs(1), 2 * amount).unwrap();
                let (start, later) = (
                    Instant::from_nanos(base),
                    Instant::from_nanos(base + SECOND),
                );
                let word = bucket.step(0, start, 2 * amount).unwrap();
                assert_eq!(
                    bucket.step(word, start, 1),
                    Err(Denied),
                    "{amount} at {base}"
                );
                assert_eq!(
                    bucket.step(word, later, amount + 1),
                    Err(Denied),
                    "{amount} at {base}"
                );
                assert!(
                    bucket.step(word, later, amount).is_ok(),
                    "{amount} at {base}"
                );
                assert_eq!(bucket.used(word, later), amount, "{amount} at {base}");
            }
        }
    }

    #[test]
    fn idleness_does_not_matter() {
        for idle in [2, 5, 3600, 365 * 86_400, 20 * 365 * 86_400] {
            let idle = idle * SECOND;
            check(
                (1, SECOND, 2),
                &[
                    (1000, 2, true),
                    (1000 + idle, 2, true),
                    (1000 + idle, 1, false),
                ],
            );
        }
        for days in 1..52 {
            let idle = days * 86_400 * SECOND;
            check(
                (1_048_573, SECOND, 2_000_000),
                &[(1000, 2_000_000, true), (1000 + idle, 2_000_000, true)],
            );
        }
    }

    #[test]
    fn a_bucket_of_one_token_admits_evenly() {
        let mut packets = Vec::new();
        for packet in 0..100 {
            packets.push((packet * SECOND, 1, true));
            packets.push(((packet + 1) * SECOND - 1, 1, false));
        }
        check((1, SECOND, 1), &packets);
    }

    #[test]
    fn no_charge_leaves_the_word_of_a_new_source() {
        // A second is 2 * 10^9 parts: without the odd one, what is full at 2^64 parts would be 0.
        let at = (1 << 63) - SECOND;
        check((1, SECOND, 1), &[(at, 1, true), (at, 1, false)]);
    }

    #[test]
    fn what_the_word_cannot_hold_is_refused_with_what_fits() {
        let (second, month) = (Duration::from_secs(1), Duration::from_hours(744));
        let refused = |amount, window, burst| TokenBucket::new(amount, window, burst).unwrap_err();
        assert_eq!(refused(0, second, 1), TokenBucketError::ZeroAmount);
        assert_eq!(refused(1, second, 0), TokenBucketError::ZeroBurst);
        assert_eq!(
            refused(999_999_999_989, second, 1_000_000_000_000),
            TokenBucketError::Inexact {
                amount_fits: 999_000_000_000
            }
        );
        // Two ticks of 512 ns would be a coarse bucket of one token.
        assert_eq!(
            refused(1_048_573, second, 1),
            TokenBucketError::Inexact {
                amount_fits: 1_048_000
            }
        );
        let TokenBucketError::BurstTooLarge { burst_max } = refused(1, month, u64::MAX) else {
            panic!("it takes forever to fill");
        };
        assert!(TokenBucket::new(1, month, burst_max).is_ok());
        assert!(TokenBucket::new(1, month, burst_max + 1).is_err());
        for amount in [1, 1_000_000, 10_000_000_000, 1_000_000_000_000] {
            for window in [second, Duration::from_mins(1), month] {
                assert!(
                    TokenBucket::new(amount, window, amount).is_ok(),
                    "{amount} in {window:?}"
                );
            }
        }
    }

    /// What the definition needs: tokens as fractions, in 1/`window_ns` of a token.
    struct Oracle {
        amount: i128,
        window_ns: i128,
        full: i128,
        level: i128,
        last: i128,
    }

    impl Oracle {
        fn new(amount: u64, window_ns: u64, burst: u64) -> Self {
            let full = i128::from(burst) * i128::from(window_ns);
            Self {
                amount: amount.into(),
                window_ns: window_ns.into(),
                full,
                level: full,
                last: 0,
            }
        }

        fn admits(&mut self, at: u64, cost: u64) -> bool {
            let elapsed = i128::from(at) - self.last;
            self.last = at.into();
            self.level = self.full.min(self.level + elapsed * self.amount);
            let cost = i128::from(cost) * self.window_ns;
            let fits = cost <= self.level;
            if fits {
                self.level -= cost;
            }
            fits
        }

        fn used(&self) -> i128 {
            (self.full - self.level + self.window_ns - 1) / self.window_ns
        }
    }

    fn parameters() -> impl Strategy<Value = (u64, u64, u64)> {
        let amount = prop_oneof![
            1u64..2_000,
            1u64..100_000_000,
            (1u64..1000).prop_map(|n| n * 1_000_000_000)
        ];
        let window =
            prop_oneof![10u64..5_000, 60_000u64..31 * 86_400_000].prop_map(|ms| ms * 1_000_000);
        (amount, window, 1u64..10_000_000).prop_filter(
            "it can be had",
            |(amount, window, burst)| {
                TokenBucket::new(*amount, Duration::from_nanos(*window), *burst).is_ok()
            },
        )
    }

    proptest! {
        /// The level of a bucket in rational arithmetic; the difference is 0.
        #[test]
        fn agrees_with_the_obvious_definition(
            (amount, window_ns, burst) in parameters(),
            start: u32,
            arrivals in prop::collection::vec((0.0f64..4.0, 0.0f64..1.2), 1..300),
        ) {
            let bucket = TokenBucket::new(amount, Duration::from_nanos(window_ns), burst).unwrap();
            let mut oracle = Oracle::new(amount, window_ns, burst);
            let (mut word, mut now) = (0, u64::from(start));
            for (gap, share) in arrivals {
                let cost = ((burst as f64 * share * share) as u64).max(1);
                now += (gap * gap * cost as f64 * window_ns as f64 / amount as f64) as u64 % (1 << 40);
                let tick = now / bucket.tick_ns() * bucket.tick_ns();
                let answer = bucket.step(word, Instant::from_nanos(now), cost);
                prop_assert_eq!(answer.is_ok(), oracle.admits(tick, cost));
                word = answer.unwrap_or(word);
                prop_assert_eq!(i128::from(bucket.used(word, Instant::from_nanos(now))), oracle.used());
            }
        }

        #[test]
        fn no_interval_holds_more_than_the_burst_and_the_rate(
            (amount, window_ns, burst) in parameters(),
            arrivals in prop::collection::vec((0u64..200_000_000, 1u64..1_600), 1..100),
        ) {
            let bucket = TokenBucket::new(amount, Duration::from_nanos(window_ns), burst).unwrap();
            let (mut word, mut now) = (0, 0);
            let mut admitted: Vec<(u64, u64)> = Vec::new();
            for (gap, cost) in arrivals {
                now += gap;
                if let Ok(next) = bucket.step(word, Instant::from_nanos(now), cost) {
                    word = next;
                    admitted.push((now, cost));
                }
            }
            for first in 0..admitted.len() {
                let mut sum = 0;
                for (at, cost) in &admitted[first..] {
                    sum += i128::from(*cost);
                    let elapsed = i128::from(at - admitted[first].0 + bucket.tick_ns() - 1);
                    let most = i128::from(burst) * i128::from(window_ns) + elapsed * i128::from(amount);
                    prop_assert!(sum * i128::from(window_ns) <= most);
                }
            }
        }

        #[test]
        fn a_source_that_keeps_to_its_limit_is_never_refused(
            (amount, window_ns, burst) in parameters(), start: u32, first in 1u64..100,
        ) {
            let bucket = TokenBucket::new(amount, Duration::from_nanos(window_ns), burst).unwrap();
            prop_assume!(bucket.tick_shift == 0);
            let first = first.min(burst);
            let start = u64::from(start);
            let mut word = bucket.step(0, Instant::from_nanos(start), first).unwrap();
            for packet in 1..300u64 {
                // The bucket was emptied by `first` tokens, and takes the others one by one.
                let due = (u128::from(packet + first - burst.min(first)) * u128::from(window_ns)).div_ceil(amount.into());
                let at = start + u64::try_from(due).unwrap();
                word = bucket.step(word, Instant::from_nanos(at), 1).expect("within the limit");
            }
        }

        #[test]
        fn a_word_of_any_content_admits_no_more_than_a_burst(word: u64, now: u64) {
            let bucket = TokenBucket::new(7, Duration::from_secs(1), 5).unwrap();
            let mut word = word;
            let mut admitted = 0;
            while let Ok(next) = bucket.step(word, Instant::from_nanos(now), 1) {
                word = next;
                admitted += 1;
            }
            prop_assert!(admitted <= 5);
        }

        /// Clocks of CPUs that differ give nobody more than the time between the first and the last of them would.
        #[test]
        fn times_that_go_backwards_give_no_more(
            arrivals in prop::collection::vec((0u64..20_000_000, 0u64..2_000_000_000), 1..300),
        ) {
            let bucket = TokenBucket::new(10, Duration::from_secs(1), 5).unwrap();
            let (mut word, mut now, mut admitted) = (0, 10 * SECOND, 0);
            let (mut first, mut last) = (u64::MAX, 0);
            for (gap, back) in arrivals {
                now += gap;
                let at = now - back;
                (first, last) = (first.min(at), last.max(at));
                let answer = bucket.step(word, Instant::from_nanos(at), 1);
                admitted += u64::from(answer.is_ok());
                prop_assert!(admitted * SECOND <= 5 * SECOND + (last - first) * 10);
                word = answer.unwrap_or(word);
            }
        }
    }

    /// Packets of (time, cost, whether it passes) against a bucket of (amount, window, burst).
    fn check((amount, window_ns, burst): (u64, u64, u64), packets: &[(u64, u64, bool)]) {
        let bucket = TokenBucket::new(amount, Duration::from_nanos(window_ns), burst).unwrap();
        let mut word = 0;
        let mut answers = Vec::new();
        for &(at, cost, _) in packets {
            let answer = bucket.step(word, Instant::from_nanos(at), cost);
            answers.push(answer.is_ok());
            word = answer.unwrap_or(word);
        }
        let expected: Vec<bool> = packets.iter().map(|packet| packet.2).collect();
        assert_eq!(answers, expected, "{packets:?}");
    }
}
