//! What becomes of the next SYNs, or of the next queries, that come to a CPU, as far as it knows.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Instant, generation::Generation};

/// What becomes of the next packets of a kind that come to a CPU, as far as it knows. Most are done with after a look at it.
#[derive(
    Clone, Copy, Debug, Default, Eq, FromBytes, Immutable, IntoBytes, KnownLayout, PartialEq,
)]
#[repr(transparent)]
pub struct NextPackets(u64);

impl NextPackets {
    /// All are counted by the rules of a generation, and no more.
    #[inline(always)]
    const fn counted(generation: Generation) -> Self {
        Self(generation as u64 | !1)
    }

    /// The same where all are counted by the rules of a generation, and no more; or where they are not.
    #[inline(always)]
    #[must_use]
    pub const fn counting(self, all: bool, generation: Generation) -> Self {
        if all {
            Self::counted(generation)
        } else if self.are_counted(generation) {
            Self(0)
        } else {
            self
        }
    }

    /// Those of sources that the CPU knows as verified pass until then, and are not counted.
    #[inline(always)]
    pub const fn passed_until(until: Instant) -> Self {
        Self(until.as_nanos())
    }

    /// Whether all are counted by the rules of this generation, and no more.
    #[inline(always)]
    pub const fn are_counted(self, generation: Generation) -> bool {
        self.0 == Self::counted(generation).0
    }

    /// Whether those of sources that are known as verified pass. The number of a generation is a time before all others.
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
    const NOW: Instant = Instant::from_nanos(77_000_000_000);

    #[test]
    fn all_are_counted_by_the_rules_of_one_generation_until_that_is_taken_back() {
        let judged = NextPackets::default();
        assert!(!judged.are_counted(FIRST) && !judged.pass(NOW));
        for (generation, other) in [(FIRST, SECOND), (SECOND, FIRST)] {
            let counted = judged.counting(true, generation);
            assert!(counted.are_counted(generation) && !counted.are_counted(other));
            assert!(!counted.pass(NOW));
            assert_eq!(counted.counting(false, other), counted);
            assert_eq!(counted.counting(false, generation), judged);
        }
    }

    #[test]
    fn those_of_known_sources_pass_until_then_whatever_others_are() {
        let passed = NextPackets::passed_until(NOW).counting(false, FIRST);
        assert!(passed.pass(Instant::from_nanos(NOW.as_nanos() - 1)) && !passed.pass(NOW));
        assert!(!passed.are_counted(FIRST) && !passed.are_counted(SECOND));
        assert!(passed.counting(true, FIRST).are_counted(FIRST));
    }
}
