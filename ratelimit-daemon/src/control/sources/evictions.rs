//! How many sources had to give their state to others: those that ever got some, less those that have some.

/// Those of one family, as they are reported. They never become fewer.
#[derive(Clone, Copy, Debug, Default)]
pub struct Evictions {
    reported: u64,
    /// Slots of a `compact` table that went with their limits: nobody else got them.
    given_up: u64,
}

impl Evictions {
    /// Takes a count in: `inserted` was read before the sources were counted that `held` state, so those that come meanwhile
    /// are not taken for evicted. Where limits have `moved` since the last count, what is missing went with them.
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
        // What is counted at a limit that came anew.
        assert_eq!(evictions.count(180, 35, true), 55);
        assert_eq!(evictions.count(190, 35, false), 65);
    }
}
