//! Fixed window: at most `amount` in the window that a source's first packet opens.
//!
//! A window opens with the first packet after the last one closed, so a source meets one boundary a window, at a time of its
//! own. A window aligned to the clock lets twice the amount through at every boundary, for every source at once.
//!
//! The state is one word: the tick at which the window opened above the count. A tick is a power of two nanoseconds, as short
//! as the amount leaves bits for; ticks wrap after [`HORIZON_NS`], 2.3 years, so only a source that was silent for a multiple
//! of that, to the window, could find an old count in force.

use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use super::{Denied, token_bucket::EARLY_NS};
use crate::Instant;

/// The shortest time after which ticks may wrap.
pub const HORIZON_NS: u64 = 1 << HORIZON_BITS;
const HORIZON_BITS: u32 = 56;

/// A window holds at least this many ticks, so that its length is exact to 0.1 %.
pub const TICKS_MIN: u64 = 1000;

/// Longer windows than these 146 years are as long: twice as much has to fit into a word.
const WINDOW_MAX_NS: u64 = 1 << 62;

/// The parameters of a fixed window.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct FixedWindow {
    amount: u64,
    window_ticks: u64,
    tick_shift: u32,
    count_bits: u32,
}

/// Why a fixed window cannot be had.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FixedWindowError {
    /// Nothing could ever pass.
    ZeroAmount,
    /// The amount leaves too few bits for the time: at most `amount_max` fits into one word with this window.
    Unrepresentable {
        /// The largest amount for this window.
        amount_max: u64,
    },
}

impl FixedWindow {
    /// A window of the length `window` that admits `amount`.
    ///
    /// # Errors
    ///
    /// See [`FixedWindowError`].
    pub fn new(amount: u64, window: Duration) -> Result<Self, FixedWindowError> {
        let count_bits = u64::BITS.saturating_sub(amount.leading_zeros());
        Self::with_count_bits(count_bits, amount, window)
    }

    /// A window whose words have room for a count of `count_bits` bits, as `amount` has: they mean the same whatever amount
    /// and window they are read with.
    ///
    /// # Errors
    ///
    /// See [`FixedWindowError`].
    pub(crate) fn with_count_bits(
        count_bits: u32,
        amount: u64,
        window: Duration,
    ) -> Result<Self, FixedWindowError> {
        if amount == 0 {
            return Err(FixedWindowError::ZeroAmount);
        }
        let window_ns = u64::try_from(window.as_nanos()).unwrap_or(u64::MAX);
        let window_ns = window_ns.min(WINDOW_MAX_NS);
        let tick_shift = count_bits.saturating_sub(u64::BITS.saturating_sub(HORIZON_BITS));
        let window_ticks = window_ns.div_ceil(1u64.wrapping_shl(tick_shift));
        if tick_shift >= HORIZON_BITS || window_ticks < TICKS_MIN {
            return Err(FixedWindowError::Unrepresentable {
                amount_max: amount_max(window_ns),
            });
        }
        Ok(Self {
            amount,
            window_ticks,
            tick_shift,
            count_bits,
        })
    }

    /// What one window admits.
    #[must_use]
    pub const fn amount(&self) -> u64 {
        self.amount
    }

    /// The length of the window, in nanoseconds.
    #[must_use]
    pub const fn window_ns(&self) -> u64 {
        self.window_ticks.wrapping_shl(self.tick_shift)
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
    /// [`Denied`] when the window has no room for `cost`.
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, cost: u64) -> Result<u64, Denied> {
        let (opened, used) = self.window_at(word, now);
        let count = used.saturating_add(cost);
        if count > self.amount {
            return Err(Denied);
        }
        Ok(opened.wrapping_shl(self.count_bits) | count)
    }

    /// What was used of the window that is open at `now`.
    #[must_use]
    #[inline(always)]
    pub fn used(&self, word: u64, now: Instant) -> u64 {
        self.window_at(word, now).1
    }

    /// The word behind the last that could be of a window at `now`.
    #[inline(always)]
    pub(super) fn debt_origin(&self, now: Instant) -> u64 {
        let behind = self.tick(now).wrapping_add(self.early_ticks());
        behind.wrapping_add(1).wrapping_shl(self.count_bits)
    }

    /// The word of a window that another source has opened: what was used of it is at least the part of the amount that its
    /// time is over of. So whoever comes into many windows that others have opened is admitted no more than their time
    /// allows.
    #[inline(always)]
    pub(super) fn taken_over(&self, word: u64, now: Instant) -> u64 {
        let (opened, used) = self.parts(word);
        let elapsed = self.tick(now).wrapping_sub(opened) & self.tick_mask();
        if used == 0 || elapsed >= self.window_ticks {
            return word;
        }
        // The amount has as many bits as the tick leaves.
        let gone = self.amount.wrapping_mul(elapsed);
        let gone = gone.div_ceil(self.window_ticks.max(1));
        opened.wrapping_shl(self.count_bits) | used.max(gone)
    }

    /// How long the window that is open at `now` stays so.
    #[inline(always)]
    pub(super) fn ends_in_ns(&self, word: u64, now: Instant) -> u64 {
        let (opened, _) = self.window_at(word, now);
        let elapsed = self.tick(now).wrapping_sub(opened) & self.tick_mask();
        let ticks = self.window_ticks.saturating_sub(elapsed);
        ticks.wrapping_shl(self.tick_shift)
    }

    /// The time after which no window is open.
    pub(super) const fn forgets_in_ns(&self) -> u64 {
        // A word of the future, and then the window itself.
        self.window_ns().saturating_mul(3).saturating_add(EARLY_NS)
    }

    /// A word says when a window of what length opened, and has its count in these bits.
    pub(super) const fn meaning(&self) -> [u64; 3] {
        [
            self.window_ticks,
            self.tick_shift as u64,
            self.count_bits as u64,
        ]
    }

    /// The tick at which the window of a packet at `now` opened, and what was used of it before.
    #[inline(always)]
    fn window_at(&self, word: u64, now: Instant) -> (u64, u64) {
        let tick = self.tick(now);
        let (opened, used) = self.parts(word);
        // A packet from before the window opened belongs to it: CPUs read their clocks some time before they reach the word,
        // and a virtual CPU may be held up in between.
        let early = self.early_ticks();
        let elapsed = tick.wrapping_sub(opened).wrapping_add(early) & self.tick_mask();
        if used != 0 && elapsed < self.window_ticks.wrapping_add(early) {
            (opened, used)
        } else {
            (tick, 0)
        }
    }

    /// The tick at which a window opened, and what was used of it.
    #[inline(always)]
    const fn parts(&self, word: u64) -> (u64, u64) {
        let used = word & !u64::MAX.wrapping_shl(self.count_bits);
        (word.wrapping_shr(self.count_bits), used)
    }

    /// How far back time may go: [`EARLY_NS`], or a window.
    #[inline(always)]
    fn early_ticks(&self) -> u64 {
        self.window_ticks
            .max(EARLY_NS.wrapping_shr(self.tick_shift))
    }

    #[inline(always)]
    const fn tick(&self, now: Instant) -> u64 {
        now.as_nanos().wrapping_shr(self.tick_shift) & self.tick_mask()
    }

    #[inline(always)]
    const fn tick_mask(&self) -> u64 {
        u64::MAX.wrapping_shr(self.count_bits)
    }
}

/// The largest amount that leaves a window of `window_ns` its [`TICKS_MIN`] ticks.
fn amount_max(window_ns: u64) -> u64 {
    let tick_shift_max = (window_ns / TICKS_MIN).checked_ilog2().unwrap_or(0);
    let count_bits = tick_shift_max.saturating_add(u64::BITS.saturating_sub(HORIZON_BITS));
    u64::MAX
        .checked_shr(u64::BITS.saturating_sub(count_bits))
        .unwrap_or(0)
}

#[cfg(test)]
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
        let late = SECOND / 10 * 9;
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
    fn a_packet_that_does_not_fit_leaves_the_rest_for_a_smaller_one() {
        check(
            100,
            SECOND,
            &[(0, 60, true), (0, 60, false), (0, 40, true), (0, 1, false)],
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
        let (at, early) = (1 << 50, window.early_ticks());
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
    fn what_the_word_cannot_hold_is_refused_with_the_largest_that_fits() {
        let second = Duration::from_secs(1);
        assert_eq!(
            FixedWindow::new(0, second),
            Err(FixedWindowError::ZeroAmount)
        );
        let Err(FixedWindowError::Unrepresentable { amount_max }) =
            FixedWindow::new(1_000_000_000_000, second)
        else {
            panic!("10^12 fits into a second");
        };
        assert!(FixedWindow::new(amount_max, second).is_ok());
        assert!(FixedWindow::new(amount_max + 1, second).is_err());
        assert!(FixedWindow::new(6_000_000, Duration::from_hours(744)).is_ok());
        assert!(FixedWindow::new(100, Duration::from_millis(10)).is_ok());
    }

    proptest! {
        /// The seed definition: remember when the window opened, in ticks, and add up what was admitted since.
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
                let tick = now / window.tick_ns();
                let (opened, used) = open.filter(|(opened, _)| tick < opened + window.window_ticks).unwrap_or((tick, 0));
                let expected = used + cost <= amount;
                if expected {
                    open = Some((opened, used + cost));
                }
                let answer = window.step(word, Instant::from_nanos(now), cost);
                prop_assert_eq!(answer.is_ok(), expected);
                word = answer.unwrap_or(word);
            }
        }

        #[test]
        fn a_source_that_keeps_to_its_limit_is_never_refused(amount in 1u64..500, window_ms in 10u64..5_000, start: u32) {
            let window = FixedWindow::new(amount, Duration::from_millis(window_ms)).unwrap();
            let gap = (window.window_ns() + window.tick_ns()).div_ceil(amount);
            let mut word = 0;
            for packet in 0..3 * amount {
                let now = Instant::from_nanos(u64::from(start) + packet * gap);
                word = window.step(word, now, 1).expect("within the limit");
            }
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
