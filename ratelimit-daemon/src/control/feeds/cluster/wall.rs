//! The clock for the ends of statements: a wall clock that is never set.
//!
//! It advances with the time since boot. The wall clock replaces it only when the store's clock is
//! closer to the wall clock. So a ban of another node ends on time even if this host's clock, or
//! the store's, is wrong.

use ratelimit_cluster::Millis;
use serde::{Deserialize, Serialize};

/// Clocks that differ by less agree.
const APART: Millis = 2_000;

/// The clock, for the current boot.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Wall {
    /// The lead over the time since boot.
    ahead: Option<Millis>,
}

impl Wall {
    /// Reads the clock, given the time since boot, the wall clock, and the store's clock if it is
    /// known.
    pub fn read(&mut self, since_boot: Millis, wall: Millis, store: Option<Millis>) -> Millis {
        let of_wall = wall.saturating_sub(since_boot);
        let shown = since_boot + *self.ahead.get_or_insert(of_wall);
        let is_right = |store: Millis| wall.abs_diff(store) < shown.abs_diff(store);
        if wall.abs_diff(shown) > APART && store.is_some_and(is_right) {
            self.ahead = Some(of_wall);
            return wall;
        }
        shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOTED: Millis = 1_700_000_000_000;
    const HOUR: Millis = 3_600_000;

    #[test]
    fn it_runs_on_where_the_wall_clock_is_set_and_where_the_store_has_a_wrong_one() {
        let mut clock = Wall::default();
        assert_eq!(clock.read(10, BOOTED + 10, None), BOOTED + 10);
        for wall in [BOOTED + 2 * HOUR, BOOTED - HOUR] {
            assert_eq!(clock.read(20, wall, None), BOOTED + 20);
            assert_eq!(clock.read(30, wall, Some(BOOTED + 500)), BOOTED + 30);
        }
        let store = Some(BOOTED + 5 * HOUR);
        assert_eq!(clock.read(40, BOOTED + 40, store), BOOTED + 40);
    }

    #[test]
    fn it_follows_a_wall_clock_that_is_put_right() {
        let mut clock = Wall::default();
        let (wrong, store) = (BOOTED + 2 * HOUR, Some(BOOTED));
        assert_eq!(clock.read(0, wrong, None), wrong);
        assert_eq!(clock.read(0, BOOTED + 300, store), BOOTED + 300);
        assert_eq!(clock.read(50, wrong, store), BOOTED + 350);
    }
}
