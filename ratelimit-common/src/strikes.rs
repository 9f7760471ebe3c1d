//! Strikes: refusals that may lead to a ban, and the strike that bans.
//!
//! They are counted in a fixed window, in one word that is changed by compare-and-swap: of all CPUs
//! exactly one makes the last strike. With it the source is banned, before user space knows; see
//! [`policy_ban`](crate::policy_ban). All refusals, whether they may lead to a ban or not, are
//! counted in [`refused`](crate::refused).

use core::{num::NonZeroU32, time::Duration};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{
    Cursor, Instant,
    algorithm::{FixedWindow, TICKS_MIN},
    charge::words::Words,
    compare_and_swap::retry,
};

/// The bits of the count in a word of strikes. They do not depend on the rule, so a word keeps its
/// meaning when the rule changes, and when the source comes under another policy.
const COUNT_BITS: u32 = 24;

/// The strikes that must be of an established connection, in a row, before a source is banned that
/// could be forged: the one that a ban takes, and those that follow it. A forger who does not know
/// the ports of a connection hits them once in about 28,000 packets
/// (`net.ipv4.ip_local_port_range`), so one strike can be had for a minute of packets, and three in
/// a row cannot.
pub const CONFIRMATIONS: u32 = 3;

/// The most strikes that a ban may take.
pub const AFTER_MAX: u32 = (1 << COUNT_BITS) - CONFIRMATIONS;

/// The shortest time that strikes may be counted in: 1,000 ticks of 2^16 ns.
pub const WITHIN_MIN: Duration = Duration::from_nanos(TICKS_MIN << (COUNT_BITS - 8));

/// The attempts to count a strike. A limit gives up sooner, and refuses; a strike would be lost.
const ATTEMPTS: usize = 16;

/// The strikes behind the one that a ban takes.
const FOLLOWING: u64 = CONFIRMATIONS as u64 - 1;

/// The rule by which a policy bans: a number of strikes within a window, and the length of the ban.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct BanRule {
    window: FixedWindow,
    for_ns: u64,
    /// Whether a source that may be forged is banned too. A number: a `bool` is not valid for any
    /// bytes.
    forgeable: u64,
}
const _: () = assert!(size_of::<BanRule>() == 40);

impl BanRule {
    /// A ban of the length `length` with the strike number `after` within `within`. `None` when
    /// `after` is more than [`AFTER_MAX`], `within` is shorter than [`WITHIN_MIN`], or `length` is
    /// nothing.
    pub fn new(after: NonZeroU32, within: Duration, length: Duration) -> Option<Self> {
        if after.get() > AFTER_MAX || length.is_zero() {
            return None;
        }
        Some(Self {
            window: FixedWindow::with_count_bits(
                COUNT_BITS,
                u64::from(after.get()).saturating_add(FOLLOWING),
                within,
            )
            .ok()?,
            for_ns: u64::try_from(length.as_nanos()).unwrap_or(u64::MAX),
            forgeable: 0,
        })
    }

    /// Applies the rule also to sources without a TCP connection to this host, which may be forged.
    pub const fn including_forgeable(self) -> Self {
        Self {
            forgeable: 1,
            ..self
        }
    }

    /// Whether it is not a rule at all.
    #[inline(always)]
    pub const fn is_none(&self) -> bool {
        self.for_ns == 0
    }

    /// The number of strikes.
    #[inline(always)]
    pub const fn after(&self) -> u64 {
        self.window.amount().saturating_sub(FOLLOWING)
    }

    /// The length of the ban.
    pub const fn length(&self) -> Duration {
        Duration::from_nanos(self.for_ns)
    }

    /// The strikes that count at `now`.
    pub fn strikes(&self, word: u64, now: Instant) -> u64 {
        self.window.used(word, now)
    }

    /// Whether a source is banned that has no TCP connection to this host.
    #[inline(always)]
    pub const fn bans_forgeable(&self) -> bool {
        self.forgeable != 0
    }

    /// The end of a ban that begins at `now`.
    #[inline(always)]
    pub const fn until(&self, now: Instant) -> Instant {
        Instant::from_nanos(now.as_nanos().saturating_add(self.for_ns))
    }

    /// Counts a strike in the word at index 0, and returns whether a ban is due. If the rule bans
    /// sources that may be forged, this strike bans, and the count restarts. Otherwise the strike
    /// is not counted yet: [`confirm`](Self::confirm) does that.
    #[inline(always)]
    pub fn strike(&self, words: &impl Words, now: Instant) -> bool {
        until_counted(|| self.try_strike(words, now))
    }

    /// One attempt of [`strike`](Self::strike); `None` if another CPU changed the word.
    #[inline(always)]
    pub fn try_strike(&self, words: &impl Words, now: Instant) -> Option<bool> {
        let word = words.load(0);
        // If the rule has become stricter, there is no room: this strike is the last one as well.
        let next = self.window.step(word, now, 1).unwrap_or(0);
        let is_due = next == 0 || self.window.used(next, now) >= self.after();
        if is_due && !self.bans_forgeable() {
            return Some(true);
        }
        let kept = if is_due { 0 } else { next };
        words.compare_exchange(0, word, kept).ok().map(|()| is_due)
    }

    /// Counts a strike with which a ban is due, and returns whether it bans: if it is the last of
    /// [`CONFIRMATIONS`] in a row that belong to an established connection. One that does not
    /// restarts the count. A strike counts here only after its connection was found, so no number
    /// of CPUs bans with fewer.
    #[inline(always)]
    pub fn confirm(&self, words: &impl Words, is_connected: bool, now: Instant) -> bool {
        until_counted(|| self.try_confirm(words, is_connected, now))
    }

    /// One attempt of [`confirm`](Self::confirm); `None` if another CPU changed the word.
    #[inline(always)]
    pub fn try_confirm(
        &self,
        words: &impl Words,
        is_connected: bool,
        now: Instant,
    ) -> Option<bool> {
        let word = words.load(0);
        let next = self.window.step(word, now, 1).unwrap_or(0);
        let is_last = next == 0 || self.window.used(next, now) >= self.window.amount();
        let kept = if is_last || !is_connected { 0 } else { next };
        let exchanged = words.compare_exchange(0, word, kept);
        exchanged.ok().map(|()| is_last && is_connected)
    }
}

/// The result of the first attempt that succeeds; `false` if none does.
#[inline(always)]
pub fn until_counted(attempt: impl Fn() -> Option<bool>) -> bool {
    retry(ATTEMPTS, attempt).unwrap_or(false)
}

/// A packet that a limit of its source's policy refused.
#[derive(Clone, Copy, Debug)]
pub struct Strike<'a> {
    /// The arrival time of the packet.
    pub at: Instant,
    /// A cursor at the front of its frame.
    pub frame: Cursor<'a>,
    /// The index of the limit.
    pub limit: u8,
    /// Whether it may lead to a ban: it was over a limit that is no dry run.
    pub may_ban: bool,
}

#[cfg(test)]
mod tests {
    use core::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::absent::Absent;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn the_last_strike_within_the_window_bans_and_the_count_restarts() {
        check(3, &[0, 1, 2], &[false, false, true]);
        check(
            3,
            &[0, 1, 2, 3, 4, 5],
            &[false, false, true, false, false, true],
        );
        check(1, &[0, 0, 0], &[true, true, true]);
    }

    #[test]
    fn strikes_of_a_window_that_is_over_do_not_count() {
        let late = 2 * SECOND;
        check(3, &[0, 1, late, late + 1], &[false; 4]);
        check(
            3,
            &[0, 1, late, late + 1, late + 2],
            &[false, false, false, false, true],
        );
    }

    #[test]
    fn a_word_keeps_its_meaning_when_the_rule_changes() {
        let word = Word::default();
        let now = Instant::from_nanos(77 * SECOND);
        let strict = rule(AFTER_MAX, Duration::from_hours(24));
        for _ in 0..10 {
            assert!(!strict.strike(&word, now));
        }
        let lax = rule(12, Duration::from_secs(1));
        assert_eq!(lax.strikes(word.0.get(), now), 10);
        assert!(!lax.strike(&word, now));
        assert!(
            rule(5, Duration::from_secs(10)).strike(&word, now),
            "11 are more than 5"
        );
        assert_eq!(word.0.get(), 0);
    }

    #[test]
    fn a_source_that_may_be_forged_is_banned_with_three_strikes_of_a_connection_in_a_row() {
        // After the strikes that a ban takes but one.
        let check = |after: u32, connected: &[bool], expected: &[bool]| {
            let rule = BanRule {
                forgeable: 0,
                ..rule(after, Duration::from_secs(1))
            };
            let (word, now) = (Word::default(), Instant::from_nanos(1 << 40));
            for _ in 1..after {
                assert!(!rule.strike(&word, now));
            }
            let bans = connected.iter().map(|is_connected| {
                // Any number of CPUs may be between their strike and its confirmation.
                let is_due = (0..3).map(|_| rule.strike(&word, now)).last();
                is_due == Some(true) && rule.confirm(&word, *is_connected, now)
            });
            let bans: std::vec::Vec<bool> = bans.collect();
            assert_eq!(bans, expected, "{after}");
        };
        for after in [1, 2, 5, AFTER_MAX.min(1000)] {
            check(after, &[true, true, true], &[false, false, true]);
        }
        check(
            1,
            &[true, true, false, true, true, true, true],
            &[false, false, false, false, false, true, false],
        );
        check(1, &[false; 9], &[false; 9]);
        let rule = BanRule {
            forgeable: 0,
            ..rule(AFTER_MAX, Duration::from_hours(24))
        };
        assert_eq!(rule.after(), AFTER_MAX.into());
    }

    #[test]
    fn what_cannot_be_counted_is_no_rule() {
        let one = NonZeroU32::MIN;
        let too_many = NonZeroU32::new(AFTER_MAX + 1).unwrap();
        let (second, nothing) = (Duration::from_secs(1), Duration::ZERO);
        assert_eq!(BanRule::new(too_many, second, second), None);
        assert_eq!(BanRule::new(one, WITHIN_MIN / 2, second), None);
        assert_eq!(BanRule::new(one, second, nothing), None);
        assert!(BanRule::new(one, WITHIN_MIN, second).is_some());
        assert!(BanRule::default().is_none());
    }

    proptest! {
        /// In any window, every `after`th strike bans, and strikes of other windows do not count.
        #[test]
        fn strikes_are_counted_by_windows(
            after in 1u32..20,
            gaps in prop::collection::vec(0u64..300_000_000, 1..300),
        ) {
            let within = Duration::from_secs(1);
            let rule = rule(after, within);
            let window_ns = rule.window.window_ns();
            let word = Word::default();
            let (mut now, mut opened, mut count) = (u64::from(u32::MAX), None, 0);
            for gap in gaps {
                now += gap;
                if opened.is_none_or(|opened| now - opened >= window_ns) {
                    (opened, count) = (Some(now - now % rule.window.tick_ns()), 0);
                }
                count += 1;
                let expected = count == after;
                if expected {
                    (opened, count) = (None, 0);
                }
                prop_assert_eq!(rule.strike(&word, Instant::from_nanos(now)), expected);
            }
        }
    }

    /// Strikes at these times, each of which bans or does not.
    fn check(after: u32, at_ns: &[u64], expected: &[bool]) {
        let rule = rule(after, Duration::from_secs(1));
        let word = Word::default();
        let start = 1 << 40;
        let bans = at_ns
            .iter()
            .map(|ns| rule.strike(&word, Instant::from_nanos(start + ns)));
        assert_eq!(bans.collect::<std::vec::Vec<_>>(), expected);
    }

    fn rule(after: u32, within: Duration) -> BanRule {
        let after = NonZeroU32::new(after).unwrap();
        let rule = BanRule::new(after, within, Duration::from_mins(10)).unwrap();
        rule.including_forgeable()
    }

    #[derive(Default)]
    struct Word(Cell<u64>);

    impl Words for Word {
        type Ring = Absent;

        fn load(&self, _: usize) -> u64 {
            self.0.get()
        }

        fn compare_exchange(&self, _: usize, current: u64, new: u64) -> Result<(), u64> {
            if self.0.get() != current {
                return Err(self.0.get());
            }
            self.0.set(new);
            Ok(())
        }
    }
}
