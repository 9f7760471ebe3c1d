//! The budget of bans per minute: policies in the kernel and the daemon take bans from the same
//! words.
//!
//! There are two budgets with separate words. A sender of forged addresses can use up that of
//! forgeable sources, but not that of established ones.
//!
//! Time is divided into slots of 2^31 ns, 2.1 s, and a ring has a word for each of the last slots,
//! with the number of the slot above its bans. Two times within a minute are at most 28 slots
//! apart. So a ban is permitted if these slots have room, and counts for at least a minute and at
//! most 62.3 s. A window that opens with a ban would admit twice as many around its end, and a log
//! of all bans would take memory for millions.
//!
//! To take a ban, a CPU checks, adds its own by compare-and-swap, and checks again. The last of any
//! bans within a minute sees all others: they were added before, in slots that it counts, or in
//! later slots, a single one of which makes it refuse. So the budget is never exceeded. If CPUs in
//! two slots take the last one at the same time, each may see the other and give its own back; in
//! one slot, exactly one gets it.

use core::num::NonZeroU32;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{AtomicWords, Instant, compare_and_swap::ATTEMPTS};

/// The words of the ring.
pub const SLOTS: u32 = 1 << SLOT_BITS;
const SLOT_BITS: u32 = 5;

/// Slots before its own that a ban looks at: a minute is 27.94 slots long.
const BEHIND: u64 = 28;

/// Slots after its own in which a ban may find others: its time was read somewhat before. With its
/// own they are the ring.
const AHEAD: u64 = 3;
const _: () = assert!(BEHIND + 1 + AHEAD == SLOTS as u64);

/// The number of a slot is above its bans.
const NUMBER_SHIFT: u32 = 31;
const BANS_MASK: u64 = (1 << NUMBER_SHIFT) - 1;

/// Whether a source address is known to be genuine when a policy is to ban it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[repr(u32)]
pub enum Evidence {
    /// The packet belongs to an established TCP connection with this host.
    Established = 0,
    /// It does not: the address may be forged.
    Forgeable = 1,
}

impl Evidence {
    /// The number of variants.
    pub const COUNT: usize = 2;
}

/// The most bans within any minute, separately for established and forgeable sources. Zero
/// by default.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct BanBudgets {
    /// The budget for sources with an established connection.
    pub established: BanBudget,
    /// The budget for sources that may be forged.
    pub forgeable: BanBudget,
}
const _: () = assert!(size_of::<BanBudgets>() == 16);

impl BanBudgets {
    /// The budget for sources with this evidence.
    #[inline(always)]
    pub const fn of(&self, evidence: Evidence) -> BanBudget {
        match evidence {
            Evidence::Established => self.established,
            Evidence::Forgeable => self.forgeable,
        }
    }
}

/// The most bans within any minute. Zero by default.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(C)]
pub struct BanBudget {
    per_minute: u64,
}

impl BanBudget {
    /// A budget of this many bans within any minute.
    pub const fn per_minute(bans: NonZeroU32) -> Self {
        Self {
            per_minute: bans.get() as u64,
        }
    }

    /// The most bans within any minute.
    pub const fn amount(&self) -> u64 {
        self.per_minute
    }

    /// Takes one ban at `now`; `false` when there is none left.
    #[inline(always)]
    pub fn take(&self, slots: &impl AtomicWords, now: Instant) -> bool {
        self.take_with(slots, now, |slot| taken(slots, slot))
    }

    /// [`take`](Self::take), with the code of [`taken`] wherever it is kept.
    #[inline(always)]
    pub fn take_with(
        &self,
        slots: &impl AtomicWords,
        now: Instant,
        taken: impl Fn(Slot) -> u64,
    ) -> bool {
        let slot = Slot::of(now);
        for _ in 0..ATTEMPTS {
            let own = slots.load(slot.index());
            if taken(slot) >= self.per_minute {
                return false;
            }
            let more = slot.with_one_more(own);
            if slots.compare_exchange(slot.index(), own, more).is_ok() {
                let is_within = taken(slot) <= self.per_minute;
                if !is_within {
                    slot.give_back(slots);
                }
                return is_within;
            }
        }
        false
    }
}

/// The bans that may lie within a minute of one in `slot`, of a ring of [`SLOTS`] words. As many as
/// there can be where others were made so much later that their slots may have taken the place of
/// these.
#[inline(always)]
pub fn taken(slots: &impl AtomicWords, slot: Slot) -> u64 {
    let (mut taken, mut last) = (0u64, 0);
    for index in 0..SLOTS {
        let word = slots.load(index);
        let number = word.wrapping_shr(NUMBER_SHIFT);
        last = last.max(number);
        if number.wrapping_add(BEHIND) >= slot.0 {
            taken = taken.wrapping_add(word & BANS_MASK);
        }
    }
    if last > slot.0.wrapping_add(AHEAD) {
        return u64::MAX;
    }
    taken
}

/// The number of a slot.
#[derive(Clone, Copy, Debug)]
pub struct Slot(pub u64);

impl Slot {
    #[inline(always)]
    const fn of(now: Instant) -> Self {
        Self(now.as_nanos().wrapping_shr(NUMBER_SHIFT))
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "it is masked")]
    const fn index(self) -> u32 {
        self.0 as u32 & (SLOTS - 1)
    }

    /// The word of this slot after `word`, which may be that of an earlier one.
    #[inline(always)]
    const fn with_one_more(self, word: u64) -> u64 {
        let empty = self.0.wrapping_shl(NUMBER_SHIFT);
        (if word > empty { word } else { empty }).wrapping_add(1)
    }

    /// Returns the ban to the slot. It stays taken if other CPUs win every attempt.
    #[inline(always)]
    fn give_back(self, slots: &impl AtomicWords) {
        let empty = self.0.wrapping_shl(NUMBER_SHIFT);
        for _ in 0..ATTEMPTS {
            let word = slots.load(self.index());
            // A later slot has taken its place.
            if word & !BANS_MASK != empty {
                return;
            }
            let less = word.saturating_sub(1).max(empty);
            if slots.compare_exchange(self.index(), word, less).is_ok() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::{thread, vec::Vec};

    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const MINUTE: u64 = 60 * SECOND;
    const SLOT: u64 = 1 << NUMBER_SHIFT;
    /// The longest time for which a ban counts.
    const COUNTS: u64 = (BEHIND + 1) * SLOT;

    #[test]
    fn a_ban_counts_for_a_minute_wherever_in_its_slot_it_was_made() {
        for start in [
            0,
            SLOT - 1,
            77 * SLOT,
            77 * SLOT + SLOT / 2,
            u64::MAX - COUNTS,
        ] {
            let ring = Words::default();
            assert!(take(&ring, 2, start));
            assert!(take(&ring, 2, start + 30 * SECOND));
            assert!(!take(&ring, 2, start + 30 * SECOND));
            assert!(!take(&ring, 2, start + MINUTE - 1));
            assert!(take(&ring, 2, start + COUNTS));
            assert!(!take(&ring, 2, start + COUNTS));
        }
    }

    #[test]
    fn around_the_end_of_a_minute_there_are_no_more_than_within_it() {
        let ring = Words::default();
        assert!(take(&ring, 10, SECOND));
        let late = (0..100).filter(|at| take(&ring, 10, MINUTE + at)).count();
        assert_eq!(late, 9);
        let after = (0..100).filter(|at| take(&ring, 10, COUNTS + at)).count();
        assert_eq!(after, 1, "the first has ceased to count");
    }

    #[test]
    fn nothing_is_had_of_no_budget_and_a_smaller_one_holds_at_once() {
        let ring = Words::default();
        assert!(!BanBudget::default().take(&&ring, Instant::from_nanos(MINUTE)));
        for _ in 0..5 {
            assert!(take(&ring, 5, MINUTE));
        }
        assert!(!take(&ring, 3, MINUTE));
        assert!(take(&ring, 6, MINUTE));
    }

    #[test]
    fn a_packet_that_was_held_up_is_counted_or_refused() {
        let ring = Words::default();
        let at = 100 * SLOT;
        assert!(take(&ring, 3, at));
        assert!(take(&ring, 3, at - 1), "the slot before has its place");
        assert!(
            !take(&ring, 3, at - 3 * SLOT - 1),
            "what is so late is refused"
        );
        assert!(take(&ring, 3, at));
        assert!(!take(&ring, 3, at - 1));
    }

    #[test]
    fn a_ban_that_another_cpu_took_in_between_is_given_back() {
        let ring = Rival(Words::default());
        let budget = BanBudget::per_minute(NonZeroU32::MIN);
        assert!(!budget.take(&&ring, Instant::from_nanos(SLOT)));
        let taken: Vec<u64> = ring.0.0.iter().map(|word| word.load(SeqCst)).collect();
        assert_eq!(taken.iter().map(|word| word & BANS_MASK).sum::<u64>(), 1);
        assert_eq!(taken[2], 2 * SLOT + 1, "the one of the other CPU");
    }

    #[test]
    fn threads_at_once_take_exactly_as_many_as_there_are() {
        const BANS: u32 = 20_000;
        for start in [5 * SLOT, 6 * SLOT - 1] {
            let ring = Words::default();
            let won = |of_thread: u64| {
                let tries = 0..u64::from(BANS);
                tries
                    .filter(|_| take(&ring, BANS, start + of_thread))
                    .count()
            };
            let won: usize = thread::scope(|scope| {
                let threads: Vec<_> = (0..2).map(|at| scope.spawn(move || won(at))).collect();
                threads
                    .into_iter()
                    .map(|thread| thread.join().unwrap())
                    .sum()
            });
            assert!(won <= BANS as usize, "{won}");
            assert!(won + 2 * ATTEMPTS >= BANS as usize, "{won}");
        }
    }

    proptest! {
        /// Against a log of all bans: never more than `most` within a minute, and none is refused
        /// unless there were as many within 62.3 s.
        #[test]
        fn no_minute_has_more_and_none_is_refused_without_reason(
            most in 1u32..12,
            start: u32,
            gaps in prop::collection::vec(
                prop_oneof![0u64..1000, 0..SECOND, 0..10 * SECOND, 0..2 * MINUTE], 1..400),
        ) {
            let ring = Words::default();
            let mut log: Vec<u64> = Vec::new();
            let mut now = u64::from(start);
            for gap in gaps {
                now += gap;
                let within = |time: u64| log.iter().filter(|at| now - **at < time).count();
                let (in_minute, in_slots) = (within(MINUTE), within(COUNTS));
                if take(&ring, most, now) {
                    prop_assert!(in_minute < most as usize);
                    log.push(now);
                } else {
                    prop_assert!(in_slots >= most as usize);
                }
            }
        }
    }

    fn take(ring: &Words, most: u32, at_ns: u64) -> bool {
        let budget = BanBudget::per_minute(NonZeroU32::new(most).unwrap());
        budget.take(&ring, Instant::from_nanos(at_ns))
    }

    #[derive(Default)]
    struct Words([AtomicU64; SLOTS as usize]);

    impl AtomicWords for &Words {
        fn load(&self, index: u32) -> u64 {
            self.0[index as usize].load(SeqCst)
        }

        fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
            let word = &self.0[index as usize];
            word.compare_exchange(current, new, SeqCst, SeqCst)
                .map(|_| ())
        }
    }

    /// Another CPU takes one in the next slot, before the first that is taken here.
    struct Rival(Words);

    impl AtomicWords for &Rival {
        fn load(&self, index: u32) -> u64 {
            (&self.0).load(index)
        }

        fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
            let _ = self.0.0[2].compare_exchange(0, 2 * SLOT + 1, SeqCst, SeqCst);
            (&self.0).compare_exchange(index, current, new)
        }
    }
}
