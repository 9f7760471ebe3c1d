//! Token bucket, as the generic cell rate algorithm (ITU-T I.371): a burst at once, and then a
//! rate.
//!
//! A bucket holds `burst` tokens, is full for a new source, and is refilled evenly with `amount`
//! tokens per `window`. A packet takes its cost, and is denied if there is less. The state is one
//! word, the theoretical arrival time (TAT): the reading of the clock when the bucket is full
//! again.
//!
//! # A clock of tokens
//!
//! The clock counts the inflow of a bucket that is never full, in units: 65,536 per packet, and 16
//! per byte. A word minus the clock is the missing amount, at any rate. So when the amount changes,
//! the clock continues from its reading at another rate ([`TokenBucket::after`]), and usage is kept
//! without changing any word. Words of any time, rate and burst have one order, because the clock
//! never goes back.
//!
//! # Rounding
//!
//! The clock is the time, multiplied and shifted: one multiplication for each half of it. The rate
//! is rounded down by less than 2^-31, so a bucket that is empty for a day fills 40 us late.
//! Fractions of units are cut off the clock: a packet may be judged by up to [`ROUNDING`] units
//! more or less, a 16,384th of a packet.
//!
//! # Wrapping
//!
//! Words are compared by their difference to the clock. It wraps after 2^64 units: 3 days at 10^9
//! packets per second, 9 years at 10^6; 13 days at 10^12 bytes per second, 36 years at 10^9. A
//! source that was silent for a multiple of that, to the fill time of its bucket, could find its
//! old level. It would then be admitted less, never more.
//!
//! A packet may have an earlier time than one that was judged before it: CPUs read their clocks
//! some time before they reach the word. If it is up to [`EARLY_NS`] earlier, it is judged at its
//! own time: later inflow does not count for it.

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Denied, ParameterError};
use crate::Instant;

/// The units of a packet, as a power of two.
const PACKET_BITS: u8 = 16;

/// The units of a byte, as a power of two. Few suffice: limits of bytes are large, and packets have
/// many.
const BYTE_BITS: u8 = 4;

/// The units per nanosecond of the fastest clock, as a power of two. The word then wraps after 2^48
/// ns.
const FASTEST_BITS: u32 = 16;

/// The units by which the judgement of a packet may be off.
pub const ROUNDING: u64 = 4;

/// The largest step back in time that is tolerated, in nanoseconds.
pub const EARLY_NS: u64 = 1 << EARLY_BITS;
const EARLY_BITS: u32 = 32;

/// The most that a word may be ahead of the clock beyond the capacity of the bucket, as inflow
/// time: 34 s. It exceeds [`EARLY_NS`] by the longest duration of a change of the rate.
const AHEAD_BITS: u32 = 35;

/// The units of the largest bucket, as a power of two: a sixteenth of the range, so that a word is
/// rarely mistaken for another.
const CAPACITY_BITS: u32 = 60;

/// Half of the bits of a time, or of a product of two.
const HALF: u32 = 32;

/// The parameters of a token bucket.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct TokenBucket {
    burst: u64,
    /// The reading of the clock at boot.
    origin: u64,
    /// Units per 2^`fraction_bits` ticks: at least 2^31.
    multiplier: u32,
    tick_shift: u8,
    fraction_bits: u8,
    unit_bits: u8,
    /// Words are ahead of the clock by less than 2 to this power.
    ahead_bits: u8,
}

impl TokenBucket {
    /// Creates a bucket of `burst` packets with an inflow of `amount` per `window`.
    ///
    /// # Errors
    ///
    /// See [`ParameterError`].
    pub fn new(amount: u64, window: Duration, burst: u64) -> Result<Self, ParameterError> {
        Self::with_units(PACKET_BITS, amount, window, burst)
    }

    /// Creates a bucket of `burst` bytes with an inflow of `amount` per `window`.
    ///
    /// # Errors
    ///
    /// See [`ParameterError`].
    pub fn of_bytes(amount: u64, window: Duration, burst: u64) -> Result<Self, ParameterError> {
        Self::with_units(BYTE_BITS, amount, window, burst)
    }

    fn with_units(
        unit_bits: u8,
        amount: u64,
        window: Duration,
        burst: u64,
    ) -> Result<Self, ParameterError> {
        if amount == 0 {
            return Err(ParameterError::ZeroAmount);
        }
        if burst == 0 {
            return Err(ParameterError::ZeroBurst);
        }
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let fastest = FASTEST_BITS.saturating_sub(unit_bits.into());
        let amount_max = window_ns.saturating_mul(1u64.wrapping_shl(fastest));
        let burst_max = 1u64.wrapping_shl(CAPACITY_BITS.saturating_sub(unit_bits.into()));
        let rate = Rate::new(amount, window_ns, unit_bits.into());
        let Some(rate) = rate.filter(|_| amount <= amount_max) else {
            return Err(ParameterError::Unrepresentable { amount_max });
        };
        if burst > burst_max {
            return Err(ParameterError::BurstTooLarge { burst_max });
        }
        let bucket = Self {
            burst,
            origin: 0,
            multiplier: rate.multiplier,
            tick_shift: rate.tick_shift,
            fraction_bits: rate.fraction_bits,
            unit_bits,
            ahead_bits: 0,
        };
        let ahead = bucket
            .capacity()
            .saturating_add(bucket.flowed(1 << AHEAD_BITS))
            .saturating_add(ROUNDING);
        let ahead_bits = u64::BITS.saturating_sub(ahead.leading_zeros());
        Ok(Self {
            ahead_bits: u8::try_from(ahead_bits).unwrap_or(u8::MAX),
            ..bucket
        })
    }

    /// The capacity.
    pub const fn burst(&self) -> u64 {
        self.burst
    }

    /// Returns the bucket that replaces `before` at `now`. Its clock continues that of `before`, so
    /// usage is kept.
    pub fn after(self, before: &Self, now: Instant) -> Self {
        let origin = if self.has_rate_of(before) {
            before.origin
        } else {
            before.clock(now).wrapping_sub(self.flowed(now.as_nanos()))
        };
        Self {
            origin,
            ahead_bits: self.ahead_bits.max(before.ahead_bits),
            ..self
        }
    }

    /// Returns the bucket that starts at `now`. Its clock is not behind any earlier one: old words
    /// are in the past, or belong to a bucket that was as full.
    pub fn starting(self, now: Instant) -> Self {
        let fastest = now.as_nanos().wrapping_shl(FASTEST_BITS);
        Self {
            origin: fastest.wrapping_sub(self.flowed(now.as_nanos())),
            ..self
        }
    }

    /// Returns a bucket that also accepts the words of another one with the same clock, which are
    /// ahead of it by up to that one's capacity.
    pub fn reading(self, other: &Self) -> Self {
        Self {
            ahead_bits: self.ahead_bits.max(other.ahead_bits),
            ..self
        }
    }

    /// The rounding error of the admission time of a packet, in nanoseconds: it may be admitted
    /// this much before or after its tokens flow in.
    pub fn rounding_ns(&self) -> u64 {
        self.flows_in_ns(ROUNDING)
    }

    /// The state after a packet of `cost` at `now`.
    ///
    /// # Errors
    ///
    /// [`Denied`] when the bucket holds less than `cost`.
    /// # Examples
    ///
    /// ```
    /// use core::time::Duration;
    /// use ratelimit_common::{Instant, algorithm::TokenBucket};
    ///
    /// // 10 a second, 3 at once.
    /// let bucket = TokenBucket::new(10, Duration::from_secs(1), 3).unwrap();
    /// let now = Instant::from_nanos(5_000_000_000);
    /// let word = bucket.step(0, now, 3).unwrap();
    /// assert!(bucket.step(word, now, 1).is_err());
    ///
    /// let later = Instant::from_nanos(5_110_000_000);
    /// assert!(bucket.step(word, later, 1).is_ok());
    /// assert!(bucket.step(word, later, 2).is_err());
    /// ```
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, cost: u64) -> Result<u64, Denied> {
        // The tokens that may be missing already.
        let tokens = self.burst.checked_sub(cost).ok_or(Denied)?;
        let now = self.odd_clock(now);
        let taken = self.taken(word, now);
        if taken > tokens.wrapping_shl(self.unit_bits.into()) {
            return Err(Denied);
        }
        let charge = cost.wrapping_shl(self.unit_bits.into());
        Ok(now.wrapping_add(taken).wrapping_add(charge))
    }

    /// The missing tokens at `now`, rounded up.
    pub fn used(&self, word: u64, now: Instant) -> u64 {
        let taken = self.taken(word, self.odd_clock(now));
        let whole = taken.wrapping_shr(self.unit_bits.into());
        let is_whole = whole.wrapping_shl(self.unit_bits.into()) == taken;
        whole.saturating_add(u64::from(!is_whole)).min(self.burst)
    }

    /// The first word that no bucket could have at `now`.
    #[inline(always)]
    pub(super) fn debt_origin(&self, now: Instant) -> u64 {
        let ahead = 1u64.wrapping_shl(self.ahead_bits.into());
        self.odd_clock(now).wrapping_add(ahead)
    }

    /// The whole tokens that flow in within `nanos`.
    #[inline(always)]
    pub(super) fn flows_in(&self, nanos: u64) -> u64 {
        self.flowed(nanos).wrapping_shr(self.unit_bits.into())
    }

    /// The time after which any bucket is full.
    pub(super) fn forgets_in_ns(&self) -> u64 {
        self.flows_in_ns(1u64.wrapping_shl(self.ahead_bits.into()))
            .saturating_add(EARLY_NS)
            .min(u64::MAX / 2)
    }

    /// A word is a reading of a clock of units, at any rate.
    pub(super) const fn meaning(&self) -> [u64; 3] {
        [self.unit_bits as u64, 0, 0]
    }

    /// The missing units.
    #[inline(always)]
    fn taken(&self, word: u64, now: u64) -> u64 {
        let ahead = word.wrapping_sub(now);
        if word != 0 && ahead.wrapping_shr(self.ahead_bits.into()) == 0 {
            ahead
        } else {
            0
        }
    }

    /// The capacity in units: at most 2^`CAPACITY_BITS`.
    const fn capacity(&self) -> u64 {
        self.burst.wrapping_shl(self.unit_bits as u32)
    }

    /// The reading of the clock, made odd. All additions are even, so no word is 0.
    #[inline(always)]
    fn odd_clock(&self, now: Instant) -> u64 {
        self.clock(now) | 1
    }

    #[inline(always)]
    fn clock(&self, now: Instant) -> u64 {
        self.flowed(now.as_nanos()).wrapping_add(self.origin)
    }

    /// The inflow within `nanos` in units, which wraps. The product of ticks and multiplier,
    /// shifted, exceeds 64 bits, so it is computed in two halves. Only the lower one is truncated.
    #[inline(always)]
    fn flowed(&self, nanos: u64) -> u64 {
        let ticks = nanos.wrapping_shr(self.tick_shift.into());
        let multiplier = u64::from(self.multiplier);
        let fraction_bits = u32::from(self.fraction_bits);
        let high = ticks.wrapping_shr(HALF).wrapping_mul(multiplier);
        let low = (ticks & (u64::MAX >> HALF)).wrapping_mul(multiplier);
        high.wrapping_shl(HALF.wrapping_sub(fraction_bits))
            .wrapping_add(low.wrapping_shr(fraction_bits))
    }

    /// The time in which this many units flow in, rounded up.
    fn flows_in_ns(&self, units: u64) -> u64 {
        let multiplier = u64::from(self.multiplier).max(1);
        let ticks = |units: u64| units.wrapping_shl(self.fraction_bits.into());
        let whole = units.checked_div(multiplier).unwrap_or(0);
        let rest = units.checked_rem(multiplier).unwrap_or(0);
        ticks(whole)
            .saturating_add(ticks(rest).div_ceil(multiplier))
            .saturating_mul(1u64.wrapping_shl(self.tick_shift.into()))
    }

    /// Whether both have the same inflow, by clocks that differ only in their origin.
    pub const fn has_rate_of(&self, other: &Self) -> bool {
        self.multiplier == other.multiplier
            && self.tick_shift == other.tick_shift
            && self.fraction_bits == other.fraction_bits
    }
}

/// Units per nanosecond: `multiplier` per 2^`fraction_bits` ticks.
struct Rate {
    multiplier: u32,
    tick_shift: u8,
    fraction_bits: u8,
}

impl Rate {
    /// `amount` times 2^`unit_bits` per `window_ns`, rounded down to 32 binary digits; `None` if it
    /// is far too fast. Computes digit by digit, like a long division.
    fn new(amount: u64, window_ns: u64, unit_bits: u32) -> Option<Self> {
        let mut quotient = amount.checked_div(window_ns)?;
        let mut rest = amount.checked_rem(window_ns)?;
        let mut digits = 0u32;
        while quotient < 1 << 31 {
            rest = rest.checked_mul(2)?;
            quotient = quotient.wrapping_mul(2);
            if rest >= window_ns {
                rest = rest.wrapping_sub(window_ns);
                quotient |= 1;
            }
            digits = digits.wrapping_add(1);
        }
        let shift = digits.checked_sub(unit_bits)?;
        // A tick longer than a nanosecond is at most a unit.
        let fraction_bits = shift.min(HALF);
        Some(Self {
            multiplier: u32::try_from(quotient).ok()?,
            tick_shift: u8::try_from(shift.wrapping_sub(fraction_bits)).ok()?,
            fraction_bits: u8::try_from(fraction_bits).ok()?,
        })
    }
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
    /// The rounding of a token's time, which is at most a second.
    const ROUNDED: u64 = SECOND / 10_000;
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
                (SECOND / 10 - ROUNDED, 1, false),
                (SECOND / 10 + ROUNDED, 1, true),
                (SECOND / 5 - ROUNDED, 1, false),
                (SECOND / 5 + ROUNDED, 1, true),
                (SECOND, 3, true),
                (SECOND, 1, false),
            ],
        );
    }

    /// A word of 997 in seven days used to wrap after 107 days, so that this source found its
    /// bucket empty.
    #[test]
    fn a_long_window_is_forgotten_however_long_the_silence_is() {
        const DAY: u64 = 86_400 * SECOND;
        for amount in [1, 7, 997, 1_000, 65_521, 100_000] {
            let bucket = TokenBucket::new(amount, Duration::from_hours(7 * 24), amount).unwrap();
            let start = 5 * SECOND;
            let word = bucket.step(0, Instant::from_nanos(start), amount).unwrap();
            for days in 8..3_000 {
                let later = Instant::from_nanos(start + days * DAY);
                assert_eq!(bucket.used(word, later), 0, "{amount}: {days} days");
            }
        }
    }

    #[test]
    fn of_a_million_tokens_in_an_hour_no_thousandth_is_lost() {
        let bucket = TokenBucket::new(3, Duration::from_millis(10), 2).unwrap();
        let mut word = bucket.step(0, Instant::from_nanos(0), 2).unwrap();
        for packet in 1..1_000_000u64 {
            let due = (packet * 10_000_000).div_ceil(3);
            let early = bucket.step(word, Instant::from_nanos(due - 3_000), 1);
            assert_eq!(early, Err(Denied), "{packet}");
            word = bucket
                .step(word, Instant::from_nanos(due + 3_000), 1)
                .unwrap();
        }
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
        for early in [
            ROUNDED,
            50 * ROUNDED,
            SECOND / 2 - ROUNDED,
            SECOND / 2 + ROUNDED,
            SECOND,
            EARLY_NS,
        ] {
            check(
                (2, SECOND, 3),
                &[
                    (at, 1, true),
                    (at - early, 1, early <= SECOND / 2),
                    (at - early, 1, false),
                    (at + SECOND + ROUNDED, 3, true),
                    (at + SECOND - early, 1, false),
                    (at + SECOND, 1, false),
                ],
            );
        }
    }

    #[test]
    fn odd_times_are_times_like_others() {
        for base in ODD_TIMES {
            for amount in [1, 3, 1000, 999_999, 999_999_999] {
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
                    bucket.step(word, later, amount + 1 + amount / 10_000),
                    Err(Denied),
                    "{amount} at {base}"
                );
                let later = Instant::from_nanos(base + SECOND + ROUNDED);
                assert!(
                    bucket.step(word, later, amount).is_ok(),
                    "{amount} at {base}"
                );
                assert!(bucket.used(word, later) <= amount, "{amount} at {base}");
            }
        }
    }

    #[test]
    fn idleness_does_not_matter() {
        for idle in [2, 5, 3600, 365 * 86_400, 20 * 365 * 86_400] {
            let idle = idle * SECOND + ROUNDED;
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
            let due = packet * (SECOND + 2 * ROUNDED);
            packets.push((due, 1, true));
            packets.push((due + SECOND - ROUNDED, 1, false));
        }
        check((1, SECOND, 1), &packets);
    }

    #[test]
    fn no_charge_leaves_the_word_of_a_new_source() {
        for amount in [1, 7, 1_000_000_000] {
            let bucket = TokenBucket::new(amount, Duration::from_secs(1), 1).unwrap();
            let at = Instant::from_nanos(SECOND);
            let token = 1 << PACKET_BITS;
            for behind in 0..4 {
                // A clock one token before it wraps.
                let origin = 0u64.wrapping_sub(bucket.clock(at) + token + behind);
                let bucket = TokenBucket { origin, ..bucket };
                let word = bucket.step(0, at, 1).unwrap();
                assert_eq!(bucket.step(word, at, 1), Err(Denied), "{amount}: {behind}");
            }
        }
    }

    /// Stricter, looser, with another burst and window: the taken tokens are those that were taken,
    /// minus the inflow.
    #[test]
    fn usage_survives_a_change_of_the_rate() {
        let at = |seconds: u64| Instant::from_nanos(seconds * SECOND);
        let of = |amount, seconds, burst| {
            TokenBucket::new(amount, Duration::from_secs(seconds), burst).unwrap()
        };
        let first = of(8, 3600, 8).starting(at(5));
        let word = first.step(0, at(6), 8).unwrap();
        let tighter = of(7, 3600, 7).after(&first, at(7));
        assert_eq!(tighter.step(word, at(7), 1), Err(Denied));
        let again = of(8, 3600, 8).after(&tighter, at(8));
        assert_eq!(again.step(word, at(8), 1), Err(Denied));
        let larger = of(8, 3600, 10).after(&again, at(9));
        let word = larger.step(word, at(9), 2).unwrap();
        assert_eq!(larger.step(word, at(9), 1), Err(Denied));
        // One per second from here: ten are taken, and the first is back a second later.
        let faster = of(10, 10, 10).after(&larger, at(10));
        assert_eq!(faster.used(word, at(10)), 10);
        assert_eq!(faster.used(word, at(15)), 5);
        assert_eq!(
            faster.used(word, Instant::from_nanos(20 * SECOND + ROUNDED)),
            0
        );
    }

    #[test]
    fn the_same_rate_has_the_same_clock_and_one_that_begins_is_behind_none() {
        let now = Instant::from_nanos(77 * SECOND);
        let of = |amount, burst| TokenBucket::new(amount, Duration::from_secs(1), burst).unwrap();
        let first = of(1000, 10).starting(now);
        let same = of(1000, 10).after(&first, Instant::from_nanos(99 * SECOND));
        assert_eq!(same, first);
        // Words of an earlier bucket, at any rate, do not report more usage than before.
        let fast = of(1_000_000_000, 10).starting(now);
        let later = Instant::from_nanos(177 * SECOND);
        let word = fast.step(0, later, 10).unwrap();
        assert!(of(1, 10).starting(later).used(word, later) <= 10);
        let later_still = Instant::from_nanos(178 * SECOND);
        assert_eq!(of(1, 10).starting(later_still).used(word, later_still), 0);
    }

    #[test]
    fn what_the_word_cannot_hold_is_refused_with_what_fits() {
        let (second, month) = (Duration::from_secs(1), Duration::from_hours(744));
        let refused = |amount, window, burst| TokenBucket::new(amount, window, burst).unwrap_err();
        assert_eq!(refused(0, second, 1), ParameterError::ZeroAmount);
        assert_eq!(refused(1, second, 0), ParameterError::ZeroBurst);
        assert_eq!(
            refused(1_000_000_001, second, 1),
            ParameterError::Unrepresentable {
                amount_max: 1_000_000_000
            }
        );
        assert_eq!(
            TokenBucket::of_bytes(u64::MAX, second, 1).unwrap_err(),
            ParameterError::Unrepresentable {
                amount_max: 4_096_000_000_000
            }
        );
        let ParameterError::BurstTooLarge { burst_max } = refused(1, month, u64::MAX) else {
            panic!("it does not fit into a word");
        };
        assert!(TokenBucket::new(1, month, burst_max).is_ok());
        assert!(TokenBucket::new(1, month, burst_max + 1).is_err());
        for amount in [1, 999_983, 1_000_000, 999_999_999_989, 4_000_000_000_000] {
            for window in [second, Duration::from_mins(1), month] {
                assert!(
                    TokenBucket::of_bytes(amount, window, amount).is_ok(),
                    "{amount} in {window:?}"
                );
            }
        }
    }

    /// The state of the definition: the missing tokens, as a fraction with the denominator of
    /// `SCALE` windows. It follows the given answers, and reports their deviation from its own.
    struct Oracle {
        amount: i128,
        window_ns: i128,
        burst: i128,
        missing: i128,
        flowed: i128,
        last: u64,
    }

    const SCALE: i128 = 1 << 16;

    impl Oracle {
        fn new((amount, window_ns, burst): (u64, u64, u64)) -> Self {
            Self {
                amount: amount.into(),
                window_ns: window_ns.into(),
                burst: burst.into(),
                missing: 0,
                flowed: 0,
                last: 0,
            }
        }

        /// Whether the answer to a packet is right, except for rounding.
        fn judge(
            &mut self,
            at: u64,
            cost: u64,
            is_admitted: bool,
        ) -> Result<(), std::string::String> {
            self.flow(at);
            let cost = i128::from(cost) * self.window_ns * SCALE;
            let room = self.burst * self.window_ns * SCALE - self.missing - cost;
            // A unit is one of `SCALE`.
            let rounding = i128::from(ROUNDING) * self.window_ns;
            let lost = (self.flowed >> 31) + rounding;
            self.missing = self.missing.max(0) + if is_admitted { cost } else { 0 };
            let fits = cost <= self.burst * self.window_ns * SCALE;
            if is_admitted && room < -rounding || !is_admitted && fits && room >= lost {
                return Err(std::format!("{is_admitted} with {room} left"));
            }
            Ok(())
        }

        /// Negative if the bucket has been full for a while.
        fn flow(&mut self, at: u64) {
            let flows = i128::from(at - self.last) * self.amount * SCALE;
            self.last = at;
            self.flowed += flows;
            self.missing -= flows;
        }

        /// Changes the rate at `at`; missing tokens stay missing.
        fn change(&mut self, at: u64, (amount, burst): (u64, u64)) {
            self.flow(at);
            self.missing = self.missing.max(0);
            (self.amount, self.burst) = (amount.into(), burst.into());
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

    /// The time to the next packet as a part of the fill time, its cost, and sometimes another
    /// rate.
    type Step = (f64, f64, Option<(f64, f64)>);

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let change = prop::option::weighted(0.1, (0.0f64..1.0, 0.0f64..1.0));
        prop::collection::vec((0.0f64..4.0, 0.0f64..1.2, change), 1..300)
    }

    proptest! {
        /// The level of a bucket in rational arithmetic, at rates and bursts that change.
        #[test]
        fn agrees_with_the_obvious_definition_whatever_changes(
            (amount, window_ns, burst) in parameters(), start: u32, steps in steps(),
        ) {
            let of =
                |amount, burst| TokenBucket::new(amount, Duration::from_nanos(window_ns), burst);
            let mut oracle = Oracle::new((amount, window_ns, burst));
            let (mut word, mut now) = (0, u64::from(start));
            let (mut amount, mut burst) = (amount, burst);
            let mut bucket = of(amount, burst).unwrap().starting(Instant::from_nanos(now));
            for (gap, share, change) in steps {
                let cost = ((burst as f64 * share * share) as u64).max(1);
                now +=
                    (gap * gap * cost as f64 * window_ns as f64 / amount as f64) as u64 % (1 << 40);
                let at = Instant::from_nanos(now);
                if let Some((rate, size)) = change {
                    let times = |value: u64, share: f64| {
                        ((value as f64 * 8f64.powf(2.0 * share - 1.0)) as u64).clamp(1, 1 << 30)
                    };
                    (amount, burst) = (times(amount, rate).min(window_ns), times(burst, size));
                    bucket = of(amount, burst).unwrap().after(&bucket, at);
                    oracle.change(now, (amount, burst));
                }
                let answer = bucket.step(word, at, cost);
                let judged = oracle.judge(now, cost, answer.is_ok());
                prop_assert!(judged.is_ok(), "{judged:?}");
                // A word never decreases, at any rate.
                if let Ok(next) = answer {
                    prop_assert!(
                        next.wrapping_sub(bucket.debt_origin(at))
                            >= word.wrapping_sub(bucket.debt_origin(at))
                            || word == 0
                    );
                    word = next;
                }
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
