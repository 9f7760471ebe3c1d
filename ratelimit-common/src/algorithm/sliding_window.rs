//! Sliding window: at most `amount` in a window, including a weighted part of the previous one.
//!
//! At a fraction x of a window, usage is estimated as its count plus (1 - x) times the count of the
//! previous window. The windows of all sources are aligned to multiples of the length. So the word
//! contains the number of a window instead of its start time, which leaves ten more bits for the
//! counts. A boundary has no effect, because the previous window has its full weight there.
//!
//! # The bound of the error
//!
//! Let the previous window contain p. Between none and all of these are in the true last window;
//! the estimate counts (1 - x) p of them. So the estimate is at most x p too small, and at most
//! (1 - x) p too large. In any time of the length of a window, less than `amount + x p`, so less
//! than twice the amount, is admitted. Twice is reached only by a source that sends nothing, then
//! everything at the end of one window, then as much as possible while that loses weight. In any
//! time of k windows it is (k + 1) times the amount. Use a fixed window or a token bucket if a
//! burst matters.
//!
//! Over time, at least half of what a log would admit is admitted, and half is reached. A source
//! that sends the amount at once at the beginning of each window has a full estimate in every
//! second window: if a window refuses a packet, it and the previous one have together admitted the
//! amount, and a log admits no more than that in one. Evenly spaced packets all pass if their
//! number per window is at most the amount minus two and minus a 512th: one more is in the window
//! already, and one is lost to rounding. The tests check all of these bounds, and that they are
//! reached.
//!
//! Rounding is always up, so no more is admitted than by the definition. The count of the previous
//! window is stored with 11 binary digits (exactly below 2,048), and its weight in units of 2^-32,
//! or of 2^-(63 - bits of the count). The length of a window is rounded up by less than 0.01 %.
//!
//! # The word
//!
//! The number of the window is in the highest bits, then 15 bits for the previous count, then the
//! count. The number of bits of each depends only on the length of the window. So a word has the
//! same meaning for any amount, and usage survives a change of the amount. The number wraps after
//! 2^51 ns, 26 days, and after at least 256 windows. Only a source that was silent for a multiple
//! of that, to two windows, could find old counts in force. It would then be admitted less, never
//! more.
//!
//! A packet with a time up to [`EARLY_NS`] before the window of the word is counted at the start of
//! that window.

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Denied, ParameterError, token_bucket::EARLY_NS};
use crate::Instant;

/// The number of a window wraps after at least 2^51 ns.
const HORIZON_BITS: u32 = 51;

/// With fewer windows, they would be mistaken for each other too easily.
const INDEX_BITS_MIN: u32 = 8;
/// The previous count as a floating-point number: 5 bits of exponent above 10 bits of mantissa
/// without its leading one.
const PREVIOUS_BITS: u32 = 15;
const MANTISSA_BITS: u32 = 10;
const PREVIOUS_MAX: u64 = WHOLE_MASK << 30;
/// Numbers up to this are represented exactly.
const WHOLE_MASK: u64 = (2 << MANTISSA_BITS) - 1;
/// Longer windows would have too few ticks in 64 bits of time.
const WINDOW_BITS_MAX: u32 = 52;
/// Finer weights make no difference.
const WEIGHT_BITS_MAX: u32 = 32;

/// The parameters of a sliding window.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct SlidingWindow {
    amount: u64,
    /// 2^`phase_bits` divided by the ticks of a window. Multiplied by it, a tick has the number of
    /// its window in the upper bits and the elapsed part below, without a division.
    reciprocal: u32,
    early_windows: u32,
    tick_shift: u16,
    phase_bits: u16,
    count_bits: u16,
    weight_bits: u16,
}

/// The state at the time of a packet.
struct Sight {
    /// The word, of the window in which the packet is counted.
    word: u64,
    /// The remaining part of the window, in units of 2^-`phase_bits`.
    left: u64,
}

impl SlidingWindow {
    /// Creates a window of the length `window` that admits `amount`.
    ///
    /// # Errors
    ///
    /// See [`ParameterError`].
    pub fn new(amount: u64, window: Duration) -> Result<Self, ParameterError> {
        if amount == 0 {
            return Err(ParameterError::ZeroAmount);
        }
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let window_bits = window_ns.checked_ilog2().unwrap_or(0);
        let index_bits = HORIZON_BITS.saturating_sub(window_bits).max(INDEX_BITS_MIN);
        let count_bits = u64::BITS
            .saturating_sub(PREVIOUS_BITS)
            .saturating_sub(index_bits);
        let unused = u64::BITS.saturating_sub(count_bits);
        let amount_max = u64::MAX.checked_shr(unused).unwrap_or(0).min(PREVIOUS_MAX);
        if amount > amount_max || window_bits > WINDOW_BITS_MAX {
            return Err(ParameterError::Unrepresentable { amount_max });
        }
        let phase_bits = u64::BITS.saturating_sub(index_bits);
        // Half of the bits of a phase are for the ticks, and half for the precision of a tick, so
        // that both cause the same rounding error.
        let tick_shift = window_bits.saturating_add(1).saturating_sub(phase_bits / 2);
        let weight_bits = WEIGHT_BITS_MAX
            .min(phase_bits)
            .min(63u32.saturating_sub(count_bits));
        let early_windows = EARLY_NS
            .checked_div(window_ns)
            .unwrap_or(0)
            .saturating_add(2);
        Ok(Self {
            amount,
            reciprocal: reciprocal(phase_bits.saturating_add(tick_shift), window_ns),
            early_windows: u32::try_from(early_windows).unwrap_or(u32::MAX),
            tick_shift: bits(tick_shift),
            phase_bits: bits(phase_bits),
            count_bits: bits(count_bits),
            weight_bits: bits(weight_bits),
        })
    }

    /// The amount that one window admits.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The length of the window in nanoseconds, rounded up.
    pub fn window_ns(&self) -> u64 {
        let ticks = 1u64
            .wrapping_shl(self.phase_bits.into())
            .div_ceil(u64::from(self.reciprocal).max(1));
        ticks.wrapping_shl(self.tick_shift.into())
    }

    /// The state after a packet of `cost` at `now`.
    ///
    /// # Errors
    ///
    /// [`Denied`] when the window has no room for `cost`.
    /// # Examples
    ///
    /// ```
    /// use core::time::Duration;
    /// use ratelimit_common::{Instant, algorithm::SlidingWindow};
    ///
    /// let window = SlidingWindow::new(100, Duration::from_secs(1)).unwrap();
    /// let now = Instant::from_nanos(5_500_000_000);
    /// let word = window.step(0, now, 100).unwrap();
    /// assert!(window.step(word, now, 1).is_err());
    /// // A window later the one before weighs less and less.
    /// let later = Instant::from_nanos(6_200_000_000);
    /// assert!((1..100).contains(&window.used(word, later)));
    /// ```
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, cost: u64) -> Result<u64, Denied> {
        Self::step_by(|| *self, word, now, cost)
    }

    /// [`step`](Self::step) by a window that is read again for each part of it: kept, it would take
    /// stack.
    #[inline(always)]
    pub(crate) fn step_by(
        window: impl Fn() -> Self,
        word: u64,
        now: Instant,
        cost: u64,
    ) -> Result<u64, Denied> {
        let sight = window().sight(word, now);
        // The amount and both counts have at most 41 bits, so this wraps only for a larger cost.
        let used = window().used_in(&sight).wrapping_add(cost);
        let amount = window().amount;
        if cost > amount || used > amount {
            return Err(Denied);
        }
        Ok(sight.word.wrapping_add(cost))
    }

    /// The estimated usage at `now`.
    pub fn used(&self, word: u64, now: Instant) -> u64 {
        self.used_in(&self.sight(word, now))
    }

    /// The first word that cannot belong to a window at `now`.
    #[inline(always)]
    pub(super) fn debt_origin(&self, now: Instant) -> u64 {
        let phase_bits = u32::from(self.phase_bits);
        let position = now
            .as_nanos()
            .wrapping_shr(self.tick_shift.into())
            .wrapping_mul(self.reciprocal.into());
        let index = position.wrapping_shr(phase_bits);
        let behind = index.wrapping_add(self.early_windows.into());
        behind.wrapping_add(1).wrapping_shl(phase_bits)
    }

    /// Nanoseconds until the window of a packet at `now` ends, exactly, from within its tick.
    #[inline(always)]
    pub(crate) fn ends_in_ns(&self, word: u64, now: Instant) -> u64 {
        let reciprocal = u64::from(self.reciprocal).max(1);
        let ticks = self.sight(word, now).left.div_ceil(reciprocal);
        let into_tick = now.as_nanos() & !u64::MAX.wrapping_shl(self.tick_shift.into());
        ticks
            .wrapping_shl(self.tick_shift.into())
            .saturating_sub(into_tick)
    }

    /// The time after which no window has weight.
    pub(super) fn forgets_in_ns(&self) -> u64 {
        let windows = u64::from(self.early_windows).saturating_add(3);
        self.window_ns().saturating_mul(windows)
    }

    /// A word contains the number of a window of this length, and its counts in these bits.
    pub(super) const fn meaning(&self) -> [u64; 3] {
        [
            self.reciprocal as u64,
            self.tick_shift as u64,
            (self.phase_bits as u64).wrapping_shl(32) | self.count_bits as u64,
        ]
    }

    #[inline(always)]
    fn sight(&self, word: u64, now: Instant) -> Sight {
        let phase_bits = u32::from(self.phase_bits);
        let position = now
            .as_nanos()
            .wrapping_shr(self.tick_shift.into())
            .wrapping_mul(self.reciprocal.into());
        let index = position.wrapping_shr(phase_bits);
        let whole = 1u64.wrapping_shl(phase_bits);
        let left = whole.wrapping_sub(position & whole.wrapping_sub(1));

        let counted_in = word.wrapping_shr(phase_bits);
        let index_mask = u64::MAX.wrapping_shr(phase_bits);
        let windows = index.wrapping_sub(counted_in) & index_mask;
        let fresh = index.wrapping_shl(phase_bits);
        if word == 0 {
            Sight { word: fresh, left }
        } else if windows == 0 {
            Sight { word, left }
        } else if windows == 1 {
            let previous = rounded_up(self.count(word)).wrapping_shl(self.count_bits.into());
            Sight {
                word: fresh | previous,
                left,
            }
        } else if windows > index_mask.wrapping_sub(self.early_windows.into()) {
            Sight { word, left: whole }
        } else {
            Sight { word: fresh, left }
        }
    }

    /// The count of the window of a word.
    #[inline(always)]
    fn count(&self, word: u64) -> u64 {
        word & !u64::MAX.wrapping_shl(self.count_bits.into())
    }

    /// The count of the window, and the weighted count of the previous one, rounded up.
    #[inline(always)]
    fn used_in(&self, sight: &Sight) -> u64 {
        let weight_bits = u32::from(self.weight_bits);
        let shift = u32::from(self.phase_bits).wrapping_sub(weight_bits);
        let round_up = 1u64.wrapping_shl(shift).wrapping_sub(1);
        let weight = sight.left.wrapping_add(round_up).wrapping_shr(shift);
        let previous = sight.word.wrapping_shr(self.count_bits.into()) & PREVIOUS_MASK;
        // At most 2^count_bits times 2^weight_bits, whose sum is at most 63.
        let round_up = 1u64.wrapping_shl(weight_bits).wrapping_sub(1);
        let weighed = whole(previous)
            .wrapping_mul(weight)
            .wrapping_add(round_up)
            .wrapping_shr(weight_bits);
        self.count(sight.word).wrapping_add(weighed)
    }
}

const PREVIOUS_MASK: u64 = (1 << PREVIOUS_BITS) - 1;

/// Encodes a count as a floating-point number, rounded up. Monotonic.
#[inline(always)]
fn rounded_up(count: u64) -> u64 {
    let bits = u64::BITS.wrapping_sub((count | WHOLE_MASK).leading_zeros());
    let exponent = bits.wrapping_sub(MANTISSA_BITS.wrapping_add(1));
    let round_up = 1u64.wrapping_shl(exponent).wrapping_sub(1);
    let mantissa = count.wrapping_add(round_up).wrapping_shr(exponent);
    // If the mantissa was rounded up to a power of two, the carry increments the exponent.
    u64::from(exponent)
        .wrapping_shl(MANTISSA_BITS)
        .wrapping_add(mantissa)
}

/// Decodes a floating-point number.
#[inline(always)]
fn whole(number: u64) -> u64 {
    let exponent = number.wrapping_shr(MANTISSA_BITS).saturating_sub(1);
    let mantissa = number.wrapping_sub(exponent.wrapping_shl(MANTISSA_BITS));
    // There are 5 bits of it.
    mantissa.wrapping_shl((exponent & 31) as u32)
}

fn bits(bits: u32) -> u16 {
    u16::try_from(bits).unwrap_or(u16::MAX)
}

/// 2^`exponent` divided by `divisor`, rounded down, by long division: the quotient has 32 bits, the
/// dividend up to 90.
fn reciprocal(exponent: u32, divisor: u64) -> u32 {
    let (mut quotient, mut rest) = (0u32, 1u64);
    for _ in 0..exponent {
        rest = rest.wrapping_shl(1);
        quotient = quotient.wrapping_shl(1);
        if rest >= divisor {
            rest = rest.wrapping_sub(divisor);
            quotient |= 1;
        }
    }
    quotient
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

    #[test]
    fn the_amount_passes_at_once_and_then_as_the_window_before_weighs_less() {
        let at = Times::of(100);
        check(
            100,
            &[
                (at.share(3, 0), 100, true),
                (at.share(3, 0), 1, false),
                (at.share(3, 999), 1, false),
                (at.share(4, 1), 1, false),
                (at.share(4, 251), 25, true),
                (at.share(4, 251), 1, false),
                (at.share(4, 501), 26, false),
                (at.share(4, 501), 25, true),
                (at.share(5, 1), 50, true),
                (at.share(5, 1), 1, false),
                (at.share(7, 1), 100, true),
            ],
        );
    }

    #[test]
    fn half_of_what_a_log_admits_is_reached_by_bursts_at_the_front_of_each_window() {
        let at = Times::of(1_000);
        let mut both = Both::new(at.0);
        for window in 0..40 {
            both.send(at.share(3, 0) + window * at.0.window_ns(), 1_001);
        }
        assert_eq!(both.log_admitted, 40_000);
        assert!(
            (20_000..20_100).contains(&both.admitted),
            "{}",
            both.admitted
        );
    }

    #[test]
    fn almost_twice_the_amount_in_the_length_of_a_window_is_reached_by_a_burst_at_the_end_of_one() {
        let at = Times::of(1_000);
        let mut both = Both::new(at.0);
        both.send(at.share(3, 999), 1_001);
        for thousandth in 1..998 {
            both.send(at.share(4, thousandth), 1);
        }
        assert!((1_990..2_000).contains(&both.admitted), "{}", both.admitted);
        assert!(at.share(4, 998) - at.share(3, 999) < at.0.window_ns());
    }

    #[test]
    fn packets_that_come_evenly_and_as_many_as_the_amount_are_not_all_admitted() {
        let window = SlidingWindow::new(10, Duration::from_secs(1)).unwrap();
        let mut both = Both::new(window);
        for packet in 0..300 {
            both.send(packet * SECOND / 10, 1);
        }
        assert!((240..300).contains(&both.admitted), "{}", both.admitted);
    }

    #[test]
    fn a_count_is_kept_with_eleven_digits_and_never_less_than_it_is() {
        let odd = [2_047, 2_048, 2_049, 4_095, 4_097, 1 << 27, PREVIOUS_MAX];
        let around = |count: u64| [count - 1, count, count + 1];
        for count in (0..10_000).chain(odd.into_iter().flat_map(around)) {
            let count = count.min(PREVIOUS_MAX);
            let number = rounded_up(count);
            let said = whole(number);
            assert!(
                number <= PREVIOUS_MASK && (count..=count + count / 1_024).contains(&said),
                "{count}"
            );
            assert!(count > 2_047 || said == count, "{count}");
            assert!(number >= rounded_up(count.saturating_sub(1)), "{count}");
        }
    }

    #[test]
    fn a_cost_near_the_top_of_u64_is_denied_and_does_not_wrap() {
        for cost in [u64::MAX, u64::MAX / 2, 1 << 63, 101] {
            check(100, &[(0, cost, false), (0, 100, true), (1, cost, false)]);
        }
    }

    #[test]
    fn a_packet_stamped_before_its_window_is_counted_in_it() {
        let at = Times::of(2);
        for early in [1, 50, SECOND, 3 * SECOND, EARLY_NS] {
            check(
                2,
                &[
                    (at.share(9, 1), 1, true),
                    (at.share(9, 0) - early, 1, true),
                    (at.share(9, 0) - early, 1, false),
                    (at.share(9, 1), 1, false),
                ],
            );
        }
    }

    #[test]
    fn odd_times_are_times_like_others() {
        for base in [
            0,
            1 << 31,
            (1 << 32) - 1,
            1 << 32,
            (1 << 32) + 1,
            1 << 56,
            (1 << 63) - 1,
            1 << 63,
            u64::MAX - 4 * SECOND,
        ] {
            check(
                2,
                &[
                    (base, 1, true),
                    (base + 9, 1, true),
                    (base + 10, 1, false),
                    (base + 2 * SECOND + 90_000, 2, true),
                ],
            );
        }
    }

    #[test]
    fn idleness_does_not_matter() {
        for idle in [3, 3600, 52 * 86_400, 365 * 86_400, 2 * 365 * 86_400] {
            check(1, &[(1000, 1, true), (1000 + idle * SECOND, 1, true)]);
        }
        for days in 1..26 {
            let idle = days * 86_400 * SECOND;
            let most = (1 << 27) - 1;
            check(most, &[(1000, most, true), (1000 + idle, most, true)]);
        }
    }

    #[test]
    fn values_too_large_for_the_word_are_refused_with_the_maximum() {
        assert_eq!(
            SlidingWindow::new(0, Duration::from_secs(1)),
            Err(ParameterError::ZeroAmount)
        );
        for (window, expected) in [
            (Duration::from_millis(10), (1 << 21) - 1),
            (Duration::from_secs(1), (1 << 27) - 1),
            (Duration::from_mins(1), (1 << 33) - 1),
            (Duration::from_hours(744), (1 << 41) - (1 << 30)),
        ] {
            let Err(ParameterError::Unrepresentable { amount_max }) =
                SlidingWindow::new(u64::MAX, window)
            else {
                panic!("2^64 fit into {window:?}");
            };
            assert_eq!(amount_max, expected, "{window:?}");
            assert!(SlidingWindow::new(amount_max, window).is_ok());
            assert!(SlidingWindow::new(amount_max + 1, window).is_err());
        }
    }

    /// A window and a log that receive the same packets.
    struct Both {
        window: SlidingWindow,
        word: u64,
        admitted: u64,
        log: Vec<u64>,
        log_admitted: u64,
    }

    impl Both {
        fn new(window: SlidingWindow) -> Self {
            Self {
                window,
                word: 0,
                admitted: 0,
                log: Vec::new(),
                log_admitted: 0,
            }
        }

        fn send(&mut self, at: u64, packets: u64) {
            self.log.retain(|time| time + self.window.window_ns() > at);
            for _ in 0..packets {
                if let Ok(next) = self.window.step(self.word, Instant::from_nanos(at), 1) {
                    self.word = next;
                    self.admitted += 1;
                }
                if (self.log.len() as u64) < self.window.amount() {
                    self.log.push(at);
                    self.log_admitted += 1;
                }
            }
        }
    }

    /// The definition in rational arithmetic, and the log of everything admitted.
    struct Oracle {
        window: SlidingWindow,
        admitted: Vec<(u128, u64)>,
    }

    impl Oracle {
        /// A time in windows, in units of 2^-`phase_bits`.
        fn position(&self, at: u64) -> u128 {
            u128::from(at >> self.window.tick_shift) * u128::from(self.window.reciprocal)
        }

        fn whole(&self) -> u128 {
            1 << self.window.phase_bits
        }

        /// The counts of the previous and the current window, and the remaining part of the window.
        fn counts(&self, position: u128) -> (u128, u128, u128) {
            let index = position / self.whole();
            let of = |wanted| {
                let inside = self
                    .admitted
                    .iter()
                    .filter(|(at, _)| at / self.whole() == wanted);
                inside.map(|(_, cost)| u128::from(*cost)).sum()
            };
            let previous = if index == 0 { 0 } else { of(index - 1) };
            (previous, of(index), self.whole() - position % self.whole())
        }

        /// The content of the sliding log: everything in the last window.
        fn log(&self, position: u128) -> u128 {
            let inside = self
                .admitted
                .iter()
                .filter(|(at, _)| at + self.whole() > position);
            inside.map(|(_, cost)| u128::from(*cost)).sum()
        }
    }

    proptest! {
        /// Never more than by the definition, hardly less, and within the bound above compared to
        /// the sliding log.
        #[test]
        fn agrees_with_the_obvious_definition_within_its_bound(
            amount in prop_oneof![1u64..50, 1u64..5_000, 1u64..2_000_000],
            window_ms in prop_oneof![10u64..20, 10u64..5_000, 1_000u64..31 * 86_400_000],
            start: u32,
            arrivals in prop::collection::vec((0.0f64..1.0, 0.0f64..1.1), 1..200),
        ) {
            let window = SlidingWindow::new(amount, Duration::from_millis(window_ms)).unwrap();
            let mut oracle = Oracle { window, admitted: Vec::new() };
            let (mut word, mut now) = (0, u64::from(start));
            for (gap, share) in arrivals {
                let cost = ((amount as f64 * share * share * share) as u64).max(1);
                now += (gap * gap * gap * gap * 2.5 * window.window_ns() as f64) as u64;
                let position = oracle.position(now);
                let (previous, count, left) = oracle.counts(position);
                // In units: the estimate and the packet, and the limit.
                let estimate = previous * left + (count + u128::from(cost)) * oracle.whole();
                let most = u128::from(amount) * oracle.whole();
                let answer = window.step(word, Instant::from_nanos(now), cost);
                if let Ok(next) = answer {
                    word = next;
                    prop_assert!(estimate <= most, "more than the definition admits");
                    oracle.admitted.push((position, cost));
                    let elapsed = oracle.whole() - left;
                    let bound = most + previous * elapsed;
                    prop_assert!(
                        oracle.log(position) * oracle.whole() <= bound,
                        "more than the bound"
                    );
                } else {
                    // A part of the previous count, a unit of its weight, and the whole to which
                    // both are rounded.
                    let rounding = (u128::from(amount) / 1024 + 1 + u128::from(amount > 2047))
                        * oracle.whole();
                    prop_assert!(estimate + rounding > most, "refused without need");
                    let bound = (oracle.log(position) + u128::from(cost)) * oracle.whole()
                        + previous * left;
                    prop_assert!(bound + rounding > most, "refused beyond the bound");
                }
            }
        }

        /// With bursts and pauses at any times: at least half of what a log would admit.
        #[test]
        fn at_least_half_of_what_a_log_admits_is_admitted(
            amount in 4u64..2_000, start: u32,
            bursts in prop::collection::vec((0.0f64..1.0, 0.0f64..1.2), 1..60),
        ) {
            let window = SlidingWindow::new(amount, Duration::from_secs(1)).unwrap();
            let mut both = Both::new(window);
            let mut now = u64::from(start);
            for (gap, share) in bursts {
                now += (gap * gap * 2.5 * window.window_ns() as f64) as u64;
                both.send(now, (amount as f64 * share) as u64);
                // A packet in each window is lost to rounding, and only parts of the first and last
                // windows are seen.
                let windows = (now - u64::from(start)) / window.window_ns() + 2;
                prop_assert!(
                    2 * both.admitted + windows >= both.log_admitted,
                    "{} of {}",
                    both.admitted,
                    both.log_admitted
                );
            }
        }

        /// A word is written with one amount and read with another.
        #[test]
        fn usage_survives_a_change_of_the_amount(
            before in 1u64..100_000, after in 1u64..100_000, window_ms in 1_000u64..86_400_000,
            share in 0.0f64..1.0, later in 0.0f64..2.0,
        ) {
            let of = |amount| SlidingWindow::new(amount, Duration::from_millis(window_ms)).unwrap();
            let (before, after) = (of(before), of(after));
            prop_assert_eq!(before.meaning(), after.meaning());
            let at = 77 * before.window_ns();
            let used = ((before.amount() as f64 * share) as u64).max(1);
            let word = before.step(0, Instant::from_nanos(at), used).unwrap();
            let later = Instant::from_nanos(at + (before.window_ns() as f64 * later) as u64);
            let used = before.used(word, later);
            // The larger amount leaves fewer digits for the weight: up to one more by rounding.
            prop_assert!(after.used(word, later).abs_diff(used) <= 1);
            let fits = after.used(word, later) < after.amount();
            prop_assert_eq!(after.step(word, later, 1).is_ok(), fits);
        }

        #[test]
        fn a_window_is_as_long_as_was_asked_for_or_hardly_longer(
            amount in 1u64..2_000_000, window_ns in 10_000_000u64..31 * 86_400 * SECOND,
        ) {
            let window = SlidingWindow::new(amount, Duration::from_nanos(window_ns)).unwrap();
            prop_assert!(window.window_ns() >= window_ns);
            prop_assert!(window.window_ns() - window_ns < window_ns / 10_000);
            prop_assert!(1u64 << window.tick_shift < window_ns / 10_000);
        }
    }

    /// Times in windows of a limit.
    struct Times(SlidingWindow);

    impl Times {
        fn of(amount: u64) -> Self {
            Self(SlidingWindow::new(amount, Duration::from_secs(1)).unwrap())
        }

        /// The first nanosecond that is this many thousandths into a window.
        fn share(&self, index: u64, thousandths: u64) -> u64 {
            let whole = 1u128 << self.0.phase_bits;
            let position =
                u128::from(index) * whole + (u128::from(thousandths) * whole).div_ceil(1000);
            let tick = position.div_ceil(self.0.reciprocal.into());
            u64::try_from(tick).unwrap() << self.0.tick_shift
        }
    }

    /// Packets of (time, cost, whether it passes) against a window of a second.
    fn check(amount: u64, packets: &[(u64, u64, bool)]) {
        let window = SlidingWindow::new(amount, Duration::from_secs(1)).unwrap();
        let mut word = 0;
        let mut answers = Vec::new();
        for &(at, cost, _) in packets {
            let answer = window.step(word, Instant::from_nanos(at), cost);
            answers.push(answer.is_ok());
            word = answer.unwrap_or(word);
        }
        let expected: Vec<bool> = packets.iter().map(|packet| packet.2).collect();
        assert_eq!(answers, expected, "{packets:?}");
    }
}
