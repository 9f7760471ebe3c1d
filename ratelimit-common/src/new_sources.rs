//! The budget for new sources, so that a flood of forged addresses cannot evict known ones.
//! `source_limits.rs` applies it.
//!
//! A packet of a source with state never needs it. A packet of a new source takes one from the
//! budget, and the source gets state. When the budget of the window is spent, no state is created,
//! and the configured verdict applies: the packet passes, is dropped, or is charged to its
//! [overflow bucket](Address::overflow_bucket). That treats all late sources of the /24 (IPv6: /48)
//! as one, with the limits of a single source. An overflow bucket needs state too, once for all its
//! sources, and has a separate budget of the same size. If that is spent as well, the packet is
//! dropped.
//!
//! # Sharing between CPUs
//!
//! One word counts for all CPUs, which draw shares of it like of a limit of the node ([`node`]).
//! Together they create state for no more sources than the budget per window. One CPU alone can
//! spend all of it, whichever queue of the network card a flood uses. At most a [`SHARES_PART`] is
//! drawn but unspent; a budget too small for that is drawn one by one. When it is spent, nothing is
//! written.
//!
//! # Counting
//!
//! The budget covers state of sources, not of the wider prefixes around them or of the node. In
//! `lru` that is a record. In `compact`, or with sliding logs, it is the slot or the log of the
//! first limit of the policy that counts the packet. The budget is applied before the limits, and
//! limits of wider prefixes and of the node also apply over budget.

use core::{num::NonZeroU32, time::Duration};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[cfg(doc)]
use crate::{
    Address,
    node::{self, SHARES_PART},
};
use crate::{
    DropReason, Instant,
    algorithm::{FixedWindow, TICKS_MIN},
    charge::{
        outcome::Outcome,
        words::{Words, charge_word},
    },
    node::{Share, draw_from, share_shift},
};

/// The bits of the count in the word of a budget. They do not depend on the budget, so a word keeps
/// its meaning when that is changed.
const COUNT_BITS: u32 = 24;

/// The most new sources in a window.
pub const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;

/// The shortest window: 1,000 ticks of 2^16 ns.
pub const PER_MIN: Duration = Duration::from_nanos(TICKS_MIN << (COUNT_BITS - 8));

/// The owner of the state to be created.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Newcomer {
    /// A source.
    Source = 0,
    /// An overflow bucket.
    OverflowBucket = 1,
}

/// The used part of the budgets, one for each [`Newcomer`]: words of the configured window.
pub type UsedBudgets = [u64; 2];

/// The unspent shares of a CPU.
pub type BudgetShares = [Share; 2];

/// The most sources that may get state in a window.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct Budget {
    window: FixedWindow,
    /// The amount that a CPU draws at once.
    share: u64,
}

impl Budget {
    /// Creates a budget of `count` new sources in `per`, shared by `cpus` CPUs. `None` if `count`
    /// exceeds [`COUNT_MAX`], or `per` is shorter than [`PER_MIN`].
    pub fn new(count: NonZeroU32, per: Duration, cpus: u32) -> Option<Self> {
        if count.get() > COUNT_MAX {
            return None;
        }
        let count = u64::from(count.get());
        Some(Self {
            window: FixedWindow::with_count_bits(COUNT_BITS, count, per).ok()?,
            share: count.wrapping_shr(share_shift(cpus).into()),
        })
    }

    /// The share of a CPU after it took one of it; `None` when the budget is spent. `taken` says
    /// what was taken of all CPUs.
    #[inline(always)]
    pub fn take(&self, taken: &impl Words, share: Share, at: Instant) -> Option<Share> {
        let spent = Self::spend(share, at);
        if spent.is_some() {
            return spent;
        }
        let ends_in_ns = || self.window.ends_in_ns(taken.load(0), at);
        // Tries once, as `draw_from` tries again.
        let charge = |cost| {
            let found = taken.load(0);
            let Ok(next) = self.window.step(found, at, cost) else {
                return Outcome::LIMITED;
            };
            match taken.compare_exchange(0, found, next) {
                Ok(()) => Outcome::PASSED,
                Err(_) => Outcome::refused(DropReason::Contended, 0),
            }
        };
        draw_from(ends_in_ns, charge, SCOPE, at, 1, self.share).ok()
    }

    /// Whether nothing can be taken: by a CPU with this share, and where CPUs keep none, by any.
    #[inline(always)]
    pub fn is_spent(&self, taken: &impl Words, share: Share, at: Instant) -> bool {
        share.left_at(at) == 0 && self.window.step(taken.load(0), at, 1).is_err()
    }

    /// The rest of a share after taking one. `None` if nothing was left.
    #[inline(always)]
    pub const fn spend(share: Share, at: Instant) -> Option<Share> {
        match share.left_at(at) {
            0 => None,
            left => Some(share.with_left(left.wrapping_sub(1))),
        }
    }

    /// Takes one without a share, where CPUs keep none; `false` when the budget is spent.
    #[inline(always)]
    pub fn take_one(&self, taken: &impl Words, at: Instant) -> bool {
        !charge_word(taken, 0, |word| self.window.step(word, at, 1)).is_refused()
    }
}

/// A word means the same whatever the budget is.
const SCOPE: u32 = 0;

#[cfg(test)]
mod tests {
    use core::cell::Cell;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::{Address, Ipv4, Ipv6, absent::Absent};

    /// None of 100 newcomers at one queue of a machine with many CPUs is refused, nor any of
    /// 100,000.
    #[test]
    fn one_cpu_alone_can_spend_the_budget_and_all_together_no_more() {
        for (count, cpus) in [(1, 96), (100, 2), (100, 96), (100_000, 2), (1_000_000, 64)] {
            let alone = Cpus::new(count, cpus);
            assert_eq!(
                alone.taken_by(0, 2 * u64::from(count), START),
                u64::from(count)
            );
            let together = Cpus::new(count, cpus);
            let taken: u64 = (0..cpus as usize)
                .cycle()
                .take(4 * count as usize + 4 * cpus as usize)
                .map(|cpu| together.taken_by(cpu, 1, START))
                .sum();
            let unspent = u64::from(count) / 128;
            assert!(
                (u64::from(count) - unspent..=u64::from(count)).contains(&taken),
                "{taken} of {count}"
            );
        }
    }

    proptest! {
        /// A share ends with the window that it was drawn from, whatever the CPUs do around its
        /// end.
        #[test]
        fn no_window_has_more_than_the_budget(
            count in 1u32..5_000, cpus in 1u32..8, start: u32,
            steps in prop::collection::vec((0usize..8, 1u64..300, 0u64..70_000), 1..400),
        ) {
            let budget = Cpus::new(count, cpus);
            let mut now = u64::from(start);
            let (mut opened, mut taken) = (None, 0);
            for (cpu, tries, gap) in steps {
                // Most steps lie close to the end of the window.
                now += if gap < 60_000 {
                    gap
                } else {
                    SECOND
                        .saturating_sub(now - opened.unwrap_or(now))
                        .saturating_sub(100_000)
                };
                let window = budget.budget.window;
                if opened.is_none_or(|opened| now >= opened + window.window_ns()) {
                    (opened, taken) = (Some(now - now % window.tick_ns()), 0);
                }
                taken += budget.taken_by(cpu % cpus as usize, tries, now);
                prop_assert!(taken <= u64::from(count), "{} of {}", taken, count);
            }
        }
    }

    #[test]
    fn a_budget_that_a_word_cannot_keep_is_none() {
        let most = NonZeroU32::new(COUNT_MAX).unwrap();
        assert!(Budget::new(most, PER_MIN, 1).is_some());
        assert_eq!(
            Budget::new(most, PER_MIN.saturating_sub(Duration::from_micros(66)), 1),
            None
        );
        let more = most.checked_add(1).unwrap();
        assert_eq!(Budget::new(more, Duration::from_secs(1), 1), None);
    }

    #[test]
    fn an_overflow_bucket_has_a_prefix_and_is_no_neighbour_of_its_sources() {
        let source = Ipv4::new([192, 0, 2, 77]);
        assert!(!source.is_overflow_bucket() && source.overflow_bucket().is_overflow_bucket());
        let front = Ipv4::new([192, 0, 2, 0]);
        assert_eq!(source.overflow_bucket().overflow_prefix(), (front, 24));
        assert_eq!(front.overflow_bucket(), source.overflow_bucket());
        let source = Ipv6::new([0x20, 1, 0xd, 0xb8, 7, 8, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(!source.is_overflow_bucket() && source.overflow_bucket().is_overflow_bucket());
        let front = source.prefix(48);
        assert_eq!(source.overflow_bucket().overflow_prefix(), (front, 48));
        assert_eq!(
            Ipv6::from_key(source.overflow_bucket().key()),
            source.overflow_bucket()
        );
    }

    const SECOND: u64 = 1_000_000_000;
    const START: u64 = 77 * SECOND;

    /// CPUs that share a budget of a second.
    struct Cpus {
        budget: Budget,
        taken: Word,
        shares: Vec<Cell<Share>>,
    }

    impl Cpus {
        fn new(count: u32, cpus: u32) -> Self {
            let count = NonZeroU32::new(count).unwrap();
            Self {
                budget: Budget::new(count, Duration::from_secs(1), cpus).unwrap(),
                taken: Word::default(),
                shares: (0..cpus).map(|_| Cell::default()).collect(),
            }
        }

        /// The number of these tries that succeed on a CPU.
        fn taken_by(&self, cpu: usize, tries: u64, at_ns: u64) -> u64 {
            let taken = (0..tries).filter(|_| {
                let share = self.shares[cpu].get();
                let at = Instant::from_nanos(at_ns);
                let is_spent = self.budget.is_spent(&self.taken, share, at);
                let next = self.budget.take(&self.taken, share, at);
                assert_eq!(is_spent, next.is_none());
                self.shares[cpu].set(next.unwrap_or(share));
                next.is_some()
            });
            taken.count() as u64
        }
    }

    #[derive(Default)]
    struct Word(Cell<u64>);

    impl Words for Word {
        type Ring = Absent;

        fn load(&self, _: usize) -> u64 {
            self.0.get()
        }

        fn compare_exchange(&self, _: usize, current: u64, new: u64) -> Result<(), u64> {
            assert_eq!(self.0.replace(new), current);
            Ok(())
        }
    }
}
