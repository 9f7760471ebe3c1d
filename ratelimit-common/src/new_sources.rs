//! New sources have a budget, so that a flood of forged addresses cannot push out those that are known.
//!
//! A packet of a source that has state never comes here. One of a source that has none takes one of the budget of its CPU,
//! and the source gets state. When the budget of the window is spent, no state is made, and the packet gets the verdict that
//! is set: it passes, it is dropped, or it is charged to its [crowd](Address::crowd), as if all sources of the /24 (of IPv6 the
//! /48) that came too late were one, which has the limits of a source. A crowd needs state too, once for all of its sources,
//! and has a budget of its own, of the same size. Where that is spent as well, the packet is dropped.
//!
//! # Whose budget it is
//!
//! The word of a budget belongs to a CPU, which writes it alone, so nothing is passed between caches while a flood goes on.
//! A CPU has an equal share of what is configured: together they make state for no more sources than that in a window. The
//! queue of a network card that a flood arrives at can spend the budget of its CPU, and not that of the others.
//!
//! # What counts
//!
//! State that belongs to sources: not that of the wider prefixes around them, nor of the node. Where the store is `lru` that is
//! a record; where it is `compact`, or a limit is a sliding log, a slot or a log of the first limit of the policy that counts
//! the packet. The budget comes before the limits, and the limits of wider prefixes and of the node hold beyond it too.

use core::{num::NonZeroU32, time::Duration};

use crate::{
    Address, Arrival, DropReason, Instant, Policy, Tables,
    algorithm::{FixedWindow, TICKS_MIN},
    charge::Outcome,
    tables::FamilyTables,
};

/// The bits of the count in the word of a budget. They do not depend on the budget, so a word keeps its meaning when that is
/// changed.
const COUNT_BITS: u32 = 24;

/// The most new sources in a window.
pub const COUNT_MAX: u32 = (1 << COUNT_BITS) - 1;

/// The shortest window: 1,000 ticks of 2^16 ns.
pub const PER_MIN: Duration = Duration::from_nanos(TICKS_MIN << (COUNT_BITS - 8));

/// What becomes of packets of new sources when the budget is spent.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Beyond {
    /// They pass, and no limit of a source counts them.
    Pass,
    /// They are dropped.
    Drop,
    /// They are charged to the crowd of their sources.
    Aggregate,
}

/// Whose state is to be made.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Newcomer {
    /// That of a source.
    Source = 0,
    /// That of a crowd.
    Crowd = 1,
}

/// The budgets of a CPU, one for each [`Newcomer`]: words of the window that is set.
pub type Budgets = [u64; 2];

/// The share that each of `cpus` CPUs has of `count` new sources in `per`, at least one. `None` when they are more than
/// [`COUNT_MAX`], or `per` is shorter than [`PER_MIN`].
#[must_use]
pub fn share(count: NonZeroU32, per: Duration, cpus: u32) -> Option<FixedWindow> {
    if count.get() > COUNT_MAX {
        return None;
    }
    let share = count.get().checked_div(cpus).unwrap_or_default().max(1);
    FixedWindow::with_count_bits(COUNT_BITS, share.into(), per).ok()
}

/// Whether sources of `policy` that have no state need a budget.
#[inline(always)]
pub fn is_needed(policy: &Policy, tables: &impl Tables) -> bool {
    tables.settings().has_new_sources() && !policy.is_of_prefixes()
}

/// Whether `address`, a source or a crowd that has no state, gets none, because the budget is spent. Else it takes one of it.
#[inline(always)]
pub fn is_beyond<A: Address>(
    address: &A,
    policy: &Policy,
    at: Instant,
    tables: &impl Tables,
) -> bool {
    if !is_needed(policy, tables) {
        return false;
    }
    let is_crowd = tables.settings().beyond() == Beyond::Aggregate && address.is_crowd();
    let newcomer = if is_crowd {
        Newcomer::Crowd
    } else {
        Newcomer::Source
    };
    !tables.admits(newcomer, at)
}

/// The outcome of a packet whose source needed state, and got none.
pub const BEYOND: Outcome = Outcome::refused(DropReason::NewSources, 0);

/// Charges a packet of `source` to its policy, if it has one; where the source needs state and there is no budget for it, what is
/// set for that comes of the packet.
#[inline(always)]
pub fn charge<A, T>(
    mut source: A,
    policy: Option<&Policy>,
    arrival: &Arrival,
    tables: &T,
) -> Outcome
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    let outcome = tables.charge(&source, policy, arrival);
    if !outcome.is_beyond() {
        return outcome;
    }
    match tables.settings().beyond() {
        Beyond::Pass => Outcome::BEYOND_PASSED,
        Beyond::Drop => outcome,
        Beyond::Aggregate => {
            source = source.crowd();
            tables.charge(&source, policy, arrival).of_crowd()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ipv4, Ipv6};

    #[test]
    fn the_shares_of_all_cpus_are_together_no_more_than_the_budget() {
        let second = Duration::from_secs(1);
        for (count, cpus, amount) in [(100, 1, 100), (100, 3, 33), (100_000, 2, 50_000), (2, 8, 1)]
        {
            let count = NonZeroU32::new(count).unwrap();
            assert_eq!(share(count, second, cpus).unwrap().amount(), amount);
        }
    }

    #[test]
    fn a_budget_that_a_word_cannot_keep_is_none() {
        let most = NonZeroU32::new(COUNT_MAX).unwrap();
        assert!(share(most, PER_MIN, 1).is_some());
        assert_eq!(
            share(most, PER_MIN.saturating_sub(Duration::from_micros(66)), 1),
            None
        );
        let more = most.checked_add(1).unwrap();
        assert_eq!(share(more, Duration::from_secs(1), 1), None);
    }

    #[test]
    fn a_crowd_tells_its_prefix_and_is_no_neighbour_of_its_sources() {
        let source = Ipv4::new([192, 0, 2, 77]);
        assert!(!source.is_crowd() && source.crowd().is_crowd());
        let front = Ipv4::new([192, 0, 2, 0]);
        assert_eq!(source.crowd().crowd_prefix(), (front, 24));
        assert_eq!(front.crowd(), source.crowd());
        let source = Ipv6::new([0x20, 1, 0xd, 0xb8, 7, 8, 9, 9, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert!(!source.is_crowd() && source.crowd().is_crowd());
        let front = source.prefix(48);
        assert_eq!(source.crowd().crowd_prefix(), (front, 48));
        assert_eq!(Ipv6::from_key(source.crowd().key()), source.crowd());
    }
}
