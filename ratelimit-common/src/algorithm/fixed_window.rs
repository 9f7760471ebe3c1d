//! Fixed window: at most `amount` in a window that opens with a source's first packet.
//!
//! A window opens with the first packet after the last one closed, so each source has one boundary
//! per window, at its own time. A window aligned to the clock would admit twice the amount at every
//! boundary, for every source at once.
//!
//! The state is one word: the tick at which the window opened, above the count. The number of bits
//! of each depends only on the length of the window. So a word has the same meaning for any amount,
//! and usage survives a change of the amount. A tick is a power of two nanoseconds, at most a
//! thousandth of the window.
//!
//! A window lasts its full length from the tick of its first packet, which is up to a tick before
//! the packet itself. Ticks wrap after 52 days or more, and after 2.3 years if a window is longer
//! than four hours. So only a source that was silent for a multiple of that, to the window, could
//! find an old count in force.

use core::{hint::cold_path, time::Duration};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Denied, ParameterError, token_bucket::EARLY_NS};
use crate::{Instant, bits};

/// Ticks of long windows, and of words with a fixed layout, wrap after 2^56 ns.
const HORIZON_BITS: u32 = 56;

/// Ticks wrap after at least 2^52 ns.
const HORIZON_BITS_MIN: u32 = 52;

/// Ticks of short windows need to last only this many bits longer than the window, and are shorter.
const HORIZON_ABOVE_WINDOW: u32 = 12;

/// The minimum ticks per window, so that its length is exact to 0.1 %.
pub const TICKS_MIN: u64 = 1000;

/// The longest window, a hundred days. A window and the same time before it must be distinguishable
/// from silence since the ticks wrapped.
const WINDOW_MAX_NS: u64 = 1 << 53;

/// The parameters of a fixed window.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct FixedWindow {
    amount: u64,
    /// The window plus how far time may go back, on the scale of words. The lowest bits, below a
    /// nanosecond, contain the shift from nanoseconds to that scale.
    span: u64,
    /// The largest step back in time that is tolerated, on the same scale. The lowest bits contain
    /// the number of bits of the count. There are at least as many such bits, so they affect no
    /// comparison of a time with [`span`](Self::span).
    early: u64,
}

/// The lowest bits of words, which contain a number of bits.
const BITS: u64 = 63;

impl FixedWindow {
    /// Creates a window of the length `window` that admits `amount`.
    ///
    /// # Errors
    ///
    /// See [`ParameterError`].
    pub fn new(amount: u64, window: Duration) -> Result<Self, ParameterError> {
        let window_ns = nanos(window);
        let count_bits = count_bits(window_ns);
        let horizon_bits = window_ns
            .checked_ilog2()
            .unwrap_or(0)
            .saturating_add(HORIZON_ABOVE_WINDOW)
            .clamp(HORIZON_BITS_MIN, HORIZON_BITS);
        Self::with_layout(count_bits, horizon_bits, amount, window_ns)
    }

    /// Creates a window whose words have `count_bits` bits for the count, so that they have the
    /// same meaning for any amount and window.
    ///
    /// # Errors
    ///
    /// See [`ParameterError`].
    pub(crate) fn with_count_bits(
        count_bits: u32,
        amount: u64,
        window: Duration,
    ) -> Result<Self, ParameterError> {
        Self::with_layout(count_bits, HORIZON_BITS, amount, nanos(window))
    }

    fn with_layout(
        count_bits: u32,
        horizon_bits: u32,
        amount: u64,
        window_ns: u64,
    ) -> Result<Self, ParameterError> {
        if amount == 0 {
            return Err(ParameterError::ZeroAmount);
        }
        let tick_bits = u64::BITS.saturating_sub(count_bits);
        let tick_shift = horizon_bits.saturating_sub(tick_bits);
        let amount_max = u64::MAX.checked_shr(tick_bits).unwrap_or(0);
        let ticks = window_ns.checked_shr(tick_shift).unwrap_or(0);
        if amount > amount_max || ticks < TICKS_MIN || window_ns > WINDOW_MAX_NS {
            return Err(ParameterError::Unrepresentable { amount_max });
        }
        let ns_shift = count_bits.saturating_sub(tick_shift);
        let early_ns = window_ns.max(EARLY_NS);
        let scaled = |ns: u64, bits: u32| ns.wrapping_shl(ns_shift) | u64::from(bits);
        Ok(Self {
            amount,
            span: scaled(window_ns.saturating_add(early_ns), ns_shift),
            early: scaled(early_ns, count_bits),
        })
    }

    /// The amount that one window admits.
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The length of the window, in nanoseconds.
    pub const fn window_ns(&self) -> u64 {
        self.span
            .wrapping_shr(self.ns_shift())
            .wrapping_sub(self.early_ns())
    }

    /// The length of a tick, in nanoseconds.
    pub const fn tick_ns(&self) -> u64 {
        1u64.wrapping_shl(self.tick_shift())
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
    /// use ratelimit_common::{Instant, algorithm::FixedWindow};
    ///
    /// let window = FixedWindow::new(2, Duration::from_secs(1)).unwrap();
    /// let now = Instant::from_nanos(5_000_000_000);
    /// let word = window.step(0, now, 1).and_then(|word| window.step(word, now, 1)).unwrap();
    /// assert!(window.step(word, now, 1).is_err());
    /// assert_eq!(window.used(word, now), 2);
    ///
    /// let later = Instant::from_nanos(6_100_000_000);
    /// assert!(window.step(word, later, 1).is_ok());
    /// ```
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, cost: u64) -> Result<u64, Denied> {
        if cost > self.amount {
            cold_path();
            return Err(Denied);
        }
        let opened_mask = self.opened_mask();
        let opened = word & opened_mask;
        let used = word.wrapping_sub(opened);
        if used == 0 || self.is_over(opened, now) {
            cold_path();
            return Ok(self.on_words(now.as_nanos()) & opened_mask | cost);
        }
        // Both are shorter than a word, which has bits for ticks as well.
        if used.wrapping_add(cost) > self.amount {
            return Err(Denied);
        }
        Ok(word.wrapping_add(cost))
    }

    /// The usage of the window that is open at `now`.
    #[inline(always)]
    pub fn used(&self, word: u64, now: Instant) -> u64 {
        if self.is_open(word, now) {
            word & !self.opened_mask()
        } else {
            0
        }
    }

    /// The first word that cannot belong to a window at `now`.
    #[inline(always)]
    pub(super) fn debt_origin(&self, now: Instant) -> u64 {
        let early_ticks = self.early_ns().wrapping_shr(self.tick_shift());
        let behind = self.tick(now).wrapping_add(early_ticks).wrapping_add(2);
        behind.wrapping_shl(self.count_bits())
    }

    /// The word of a window that another source has opened. Its usage is at least the amount times
    /// the elapsed part of the window. So a source that joins many windows of others is admitted no
    /// more than their remaining time allows.
    #[inline(always)]
    pub(super) fn taken_over(&self, word: u64, now: Instant) -> u64 {
        let (opened, used) = self.parts(word);
        let elapsed_ns = self.elapsed_ns(opened, now);
        if used == 0 || elapsed_ns >= self.window_ns() {
            return word;
        }
        let ticks = self.window_ns().wrapping_shr(self.tick_shift());
        // The amount has at most as many bits as the ticks leave.
        let gone = self
            .amount
            .wrapping_mul(elapsed_ns.wrapping_shr(self.tick_shift()))
            .div_ceil(ticks.max(1))
            .min(self.amount);
        opened.wrapping_shl(self.count_bits()) | used.max(gone)
    }

    /// Nanoseconds until the window that is open at `now` ends, exactly.
    #[inline(always)]
    pub(crate) fn ends_in_ns(&self, word: u64, now: Instant) -> u64 {
        let (opened, _) = self.parts(word);
        if self.is_open(word, now) {
            // Before it opened, its elapsed time wraps.
            self.window_ns()
                .saturating_sub(self.elapsed_ns(opened, now))
        } else {
            self.window_ns()
                .saturating_sub(self.elapsed_ns(self.tick(now), now))
        }
    }

    /// The time after which no window is open.
    pub(super) const fn forgets_in_ns(&self) -> u64 {
        // The word may be of the future, followed by the window itself.
        self.window_ns().saturating_mul(3).saturating_add(EARLY_NS)
    }

    /// A word contains when a window of this length opened, and its count in these bits.
    pub(super) const fn meaning(&self) -> [u64; 3] {
        [
            self.window_ns(),
            self.tick_shift() as u64,
            self.count_bits() as u64,
        ]
    }

    /// A time on the scale of words: its ticks are in the same bits as those in a word, and wrap in
    /// the same way.
    #[inline(always)]
    fn on_words(&self, ns: u64) -> u64 {
        // The low bits of the span are the shift.
        bits::shl(ns, self.span)
    }

    #[inline(always)]
    const fn count_bits(&self) -> u32 {
        (self.early & BITS) as u32
    }

    #[inline(always)]
    const fn ns_shift(&self) -> u32 {
        (self.span & BITS) as u32
    }

    /// The number of bits of a time below a tick.
    #[inline(always)]
    const fn tick_shift(&self) -> u32 {
        self.count_bits().wrapping_sub(self.ns_shift())
    }

    #[inline(always)]
    fn opened_mask(&self) -> u64 {
        bits::shl(u64::MAX, self.early)
    }

    #[inline(always)]
    fn is_open(&self, word: u64, now: Instant) -> bool {
        let opened = word & self.opened_mask();
        word != opened && !self.is_over(opened, now)
    }

    /// Whether a window that opened at `opened` is over at `now`. It is not over for a packet with
    /// an earlier time: CPUs read their clocks some time before they reach the word, and a virtual
    /// CPU may be paused in between.
    #[inline(always)]
    fn is_over(&self, opened: u64, now: Instant) -> bool {
        let since_early = self
            .on_words(now.as_nanos())
            .wrapping_add(self.early)
            .wrapping_sub(opened);
        since_early >= self.span
    }

    /// The opening tick of a window, and its usage.
    #[inline(always)]
    fn parts(&self, word: u64) -> (u64, u64) {
        (
            word.wrapping_shr(self.count_bits()),
            word & !self.opened_mask(),
        )
    }

    /// The largest step back in time that is tolerated, in nanoseconds: [`EARLY_NS`], or a window.
    #[inline(always)]
    const fn early_ns(&self) -> u64 {
        self.early.wrapping_shr(self.ns_shift())
    }

    /// The time since this tick began, which wraps.
    #[inline(always)]
    const fn elapsed_ns(&self, opened: u64, now: Instant) -> u64 {
        let opened_ns = opened.wrapping_shl(self.tick_shift());
        now.as_nanos().wrapping_sub(opened_ns) & self.horizon_mask()
    }

    #[inline(always)]
    const fn tick(&self, now: Instant) -> u64 {
        now.as_nanos().wrapping_shr(self.tick_shift())
    }

    /// The time after which ticks wrap, minus one: the count leaves this many bits for ticks.
    #[inline(always)]
    const fn horizon_mask(&self) -> u64 {
        u64::MAX.wrapping_shr(self.ns_shift())
    }
}

/// The bits of the count for a window. A tick that wraps after 2^56 ns is then at most a thousandth
/// of it.
fn count_bits(window_ns: u64) -> u32 {
    let tick_shift_max = (window_ns / TICKS_MIN).checked_ilog2().unwrap_or(0);
    tick_shift_max.saturating_add(u64::BITS.saturating_sub(HORIZON_BITS))
}

fn nanos(window: Duration) -> u64 {
    u64::try_from(window.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "arrivals need not be exact"
)]
mod tests {
    use std::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn exactly_the_amount_passes_in_a_window() {
        check(
            3,
            SECOND,
            &[
                (0, 1, true),
                (0, 1, true),
                (5, 1, true),
                (6, 1, false),
                (SECOND - 1, 1, false),
                (SECOND, 1, true),
            ],
        );
    }

    #[test]
    fn a_window_opens_with_the_first_packet_not_with_the_clock() {
        let late = 27_465 << 15;
        check(
            1,
            SECOND,
            &[
                (late, 1, true),
                (SECOND, 1, false),
                (late + SECOND - 1, 1, false),
                (late + SECOND, 1, true),
            ],
        );
    }

    #[test]
    fn a_cost_near_the_top_of_u64_is_denied_and_does_not_wrap() {
        check(
            100,
            SECOND,
            &[
                (0, 100, true),
                (0, u64::MAX, false),
                (SECOND, u64::MAX, false),
            ],
        );
    }

    #[test]
    fn a_packet_stamped_just_before_its_window_is_counted_in_it() {
        let at = 7 * SECOND;
        check(
            2,
            SECOND,
            &[
                (at, 1, true),
                (at - 50, 1, true),
                (at - 60, 1, false),
                (at, 1, false),
            ],
        );
    }

    #[test]
    fn a_packet_that_was_held_up_for_many_windows_takes_nothing_back() {
        let (at, held_up) = (7 * SECOND, 4 * SECOND);
        check(
            2,
            SECOND / 100,
            &[
                (at, 1, true),
                (at - held_up, 1, true),
                (at - held_up, 1, false),
                (at, 1, false),
                (at + SECOND / 100, 1, true),
            ],
        );
    }

    #[test]
    fn a_packet_from_before_all_early_ones_opens_a_window_of_its_own() {
        let window = FixedWindow::new(1, Duration::from_secs(1)).unwrap();
        let (at, early) = (1 << 50, window.early_ns());
        let opened = window.step(0, Instant::from_nanos(at), 1).unwrap();
        let used = |at| window.used(opened, Instant::from_nanos(at));
        assert_eq!((used(at - early), used(at - early - 1)), (1, 0));
        assert_eq!((used(at + SECOND - 1), used(at + SECOND)), (1, 0));
    }

    #[test]
    fn a_newcomer_takes_nothing_over_from_nobody_and_from_a_window_that_is_over() {
        let window = FixedWindow::new(100, Duration::from_secs(1)).unwrap();
        let half = Instant::from_nanos(SECOND / 2);
        assert_eq!(window.taken_over(0, half), 0);
        let opened = window.step(0, Instant::from_nanos(0), 1).unwrap();
        assert_eq!(window.used(window.taken_over(opened, half), half), 50);
        let over = Instant::from_nanos(SECOND);
        assert_eq!(window.taken_over(opened, over), opened);
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
            u64::MAX - 3 * SECOND,
        ] {
            check(
                2,
                SECOND,
                &[
                    (base, 1, true),
                    (base + 9, 1, true),
                    (base + 10, 1, false),
                    (base + SECOND + 4, 1, true),
                ],
            );
        }
    }

    #[test]
    fn idleness_does_not_matter() {
        for idle in [
            SECOND,
            3600 * SECOND,
            365 * 86_400 * SECOND,
            (1 << 55) + SECOND,
        ] {
            check(1, SECOND, &[(1000, 1, true), (1000 + idle, 1, true)]);
        }
    }

    #[test]
    fn values_too_large_for_the_word_are_refused_with_the_maximum() {
        let second = Duration::from_secs(1);
        assert_eq!(FixedWindow::new(0, second), Err(ParameterError::ZeroAmount));
        let Err(ParameterError::Unrepresentable { amount_max }) =
            FixedWindow::new(1_000_000_000_000, second)
        else {
            panic!("10^12 fits into a second");
        };
        let largest = FixedWindow::new(amount_max, second).unwrap();
        let word = largest.step(0, Instant::from_nanos(5), amount_max - 1);
        let step = |cost| largest.step(word.unwrap(), Instant::from_nanos(6), cost);
        assert_eq!(
            (step(1).is_ok(), step(2), step(9_000)),
            (true, Err(Denied), Err(Denied))
        );
        assert!(FixedWindow::new(amount_max + 1, second).is_err());
        assert!(FixedWindow::new(6_000_000, Duration::from_hours(744)).is_ok());
        assert!(FixedWindow::new(100, Duration::from_millis(10)).is_ok());
    }

    proptest! {
        /// The defining behaviour: remember the tick in which the window opened, and sum what was
        /// admitted since.
        #[test]
        fn agrees_with_the_obvious_definition(
            amount in 1u64..2_000,
            window_ms in 10u64..5_000,
            arrivals in prop::collection::vec((0u64..200_000_000, 1u64..1_600), 1..300),
        ) {
            let window = FixedWindow::new(amount, Duration::from_millis(window_ms)).unwrap();
            let (mut word, mut now) = (0, 0);
            let mut open: Option<(u64, u64)> = None;
            for (gap, cost) in arrivals {
                now += gap;
                let tick = now - now % window.tick_ns();
                let (opened, used) = open
                    .filter(|(opened, _)| now < opened + window.window_ns())
                    .unwrap_or((tick, 0));
                let expected = used + cost <= amount;
                if expected {
                    open = Some((opened, used + cost));
                }
                let answer = window.step(word, Instant::from_nanos(now), cost);
                prop_assert_eq!(answer.is_ok(), expected);
                word = answer.unwrap_or(word);
            }
        }

        /// Anything that ends with the window, such as the share of a CPU, ends exactly with it.
        #[test]
        fn a_window_ends_when_it_says(
            amount in 1u64..100_000_000, window_ms in 1_000u64..31 * 86_400_000, start: u32,
            elapsed in 0.0f64..1.0,
        ) {
            let window = FixedWindow::new(amount, Duration::from_millis(window_ms)).unwrap();
            let word = window.step(0, Instant::from_nanos(start.into()), 1).unwrap();
            let at = u64::from(start)
                + (window.window_ns().saturating_sub(window.tick_ns()) as f64 * elapsed) as u64;
            let ends = at + window.ends_in_ns(word, Instant::from_nanos(at));
            let used = |at| window.used(word, Instant::from_nanos(at));
            prop_assert_eq!((used(ends - 1), used(ends)), (1, 0));
        }

        /// A word is written with one amount and read with another.
        #[test]
        fn usage_survives_a_change_of_the_amount(
            before in 1u64..100_000, after in 1u64..100_000, window_ms in 1_000u64..86_400_000,
            share in 0.0f64..1.0,
        ) {
            let of = |amount| FixedWindow::new(amount, Duration::from_millis(window_ms)).unwrap();
            let (before, after) = (of(before), of(after));
            prop_assert_eq!(before.meaning(), after.meaning());
            let at = Instant::from_nanos(77 * SECOND);
            let used = (before.amount() as f64 * share) as u64 + 1;
            let word = before.step(0, at, used.min(before.amount())).unwrap();
            prop_assert_eq!(after.used(word, at), before.used(word, at));
            let left = after.amount().checked_sub(after.used(word, at));
            prop_assert_eq!(left.is_some_and(|left| left > 0), after.step(word, at, 1).is_ok());
        }
    }

    /// Packets of (time, cost, whether it passes) against one window.
    fn check(amount: u64, window_ns: u64, packets: &[(u64, u64, bool)]) {
        let window = FixedWindow::new(amount, Duration::from_nanos(window_ns)).unwrap();
        let mut word = 0;
        let mut answers: Vec<bool> = vec![];
        for &(at, cost, _) in packets {
            let answer = window.step(word, Instant::from_nanos(at), cost);
            answers.push(answer.is_ok());
            word = answer.unwrap_or(word);
        }
        let expected: Vec<bool> = packets.iter().map(|packet| packet.2).collect();
        assert_eq!(answers, expected, "{packets:?}");
    }
}
