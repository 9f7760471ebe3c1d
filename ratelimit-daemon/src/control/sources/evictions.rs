//! Counts evicted sources: all that ever got state minus those that have some.

/// The reported evictions of a family. They never decrease.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evictions {
    reported: u64,
    /// Slots of a `compact` table that were removed with their limits, and so were not evicted.
    given_up: u64,
}

impl Evictions {
    /// Records a count. `inserted` must be read before the sources with state were counted
    /// (`held`), so that new ones are not mistaken for evicted ones. If limits have `moved` since
    /// the last count, missing slots were removed with them.
    pub fn count(&mut self, inserted: u64, held: u64, moved: bool) -> u64 {
        let missing = inserted.saturating_sub(held);
        if moved {
            self.given_up = missing.saturating_sub(self.reported);
        }
        self.reported = self.reported.max(missing.saturating_sub(self.given_up));
        self.reported
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_never_becomes_less() {
        let mut evictions = Evictions::default();
        assert_eq!(evictions.count(100, 100, false), 0);
        assert_eq!(evictions.count(150, 100, false), 50);
        assert_eq!(evictions.count(160, 130, false), 50, "more came meanwhile");
        assert_eq!(evictions.count(200, 130, false), 70);
    }

    #[test]
    fn slots_that_go_with_their_limits_are_not_taken_by_others() {
        let mut evictions = Evictions::default();
        evictions.count(150, 100, false);
        assert_eq!(evictions.count(150, 10, true), 50);
        assert_eq!(evictions.count(160, 15, false), 55);
        // A new limit, with 20 sources.
        assert_eq!(evictions.count(180, 35, true), 55);
        assert_eq!(evictions.count(190, 35, false), 65);
    }
}
