//! The outcome for the next SYNs or queries on a CPU, as far as it is known.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Instant, generation::Generation};

/// The outcome for the next packets of a kind on a CPU, as far as it is known. Most packets need
/// only this.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct NextPackets(u64);

/// The part of the next packets that is only counted.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Counted {
    /// All of them.
    All,
    /// SYNs, except to DNS ports while sources are challenged for queries.
    ButToDns,
}

impl NextPackets {
    /// These are counted by the rules of a generation.
    #[inline(always)]
    const fn counted(counted: Counted, generation: Generation) -> Self {
        match counted {
            Counted::All => Self(generation as u64 | !1),
            Counted::ButToDns => Self(generation as u64 | !3),
        }
    }

    /// Returns the outcome with these packets counted by the rules of a generation, or by none.
    #[inline(always)]
    #[must_use]
    pub const fn counting(self, counted: Option<Counted>, generation: Generation) -> Self {
        match counted {
            Some(counted) => Self::counted(counted, generation),
            None if self.are_counted(Counted::All, generation)
                || self.are_counted(Counted::ButToDns, generation) =>
            {
                Self(0)
            }
            None => self,
        }
    }

    /// Packets of sources known as verified pass until then, uncounted.
    #[inline(always)]
    pub const fn passed_until(until: Instant) -> Self {
        Self(until.as_nanos())
    }

    /// Whether exactly these are counted by the rules of this generation.
    #[inline(always)]
    pub const fn are_counted(self, counted: Counted, generation: Generation) -> bool {
        self.0 == Self::counted(counted, generation).0
    }

    /// Whether packets of sources known as verified pass. A number of a generation is a time before
    /// all others.
    #[inline(always)]
    pub const fn pass(self, now: Instant) -> bool {
        now.as_nanos().cast_signed() < self.0.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Generation = Generation::First;
    const SECOND: Generation = Generation::Second;
    const CASES: [(Counted, Generation); 4] = [
        (Counted::All, FIRST),
        (Counted::All, SECOND),
        (Counted::ButToDns, FIRST),
        (Counted::ButToDns, SECOND),
    ];
    const NOW: Instant = Instant::from_nanos(77_000_000_000);

    #[test]
    fn they_are_counted_by_the_rules_of_one_generation_until_that_is_taken_back() {
        let judged = NextPackets::default();
        assert!(CASES.iter().all(|(counted, generation)| {
            let next = judged.counting(Some(*counted), *generation);
            let told = CASES.iter().filter(|(it, of)| next.are_counted(*it, *of));
            !judged.are_counted(*counted, *generation) && told.eq([&(*counted, *generation)])
        }));
        for (counted, generation) in CASES {
            let next = judged.counting(Some(counted), generation);
            assert!(!next.pass(NOW));
            let other = if generation == FIRST { SECOND } else { FIRST };
            assert_eq!(next.counting(None, other), next);
            assert_eq!(next.counting(None, generation), judged);
        }
    }

    #[test]
    fn those_of_known_sources_pass_until_then_whatever_others_are() {
        let passed = NextPackets::passed_until(NOW).counting(None, FIRST);
        assert!(passed.pass(Instant::from_nanos(NOW.as_nanos() - 1)) && !passed.pass(NOW));
        for (counted, generation) in CASES {
            assert!(!passed.are_counted(counted, generation));
            let next = passed.counting(Some(counted), generation);
            assert!(next.are_counted(counted, generation));
        }
    }
}
