//! The long-term rate of a limit on all nodes together.
//!
//! A source that moves to another node late in a window finds its share there, and a full one in
//! the next window. So each move could admit more or less, depending on its timing. This is a
//! bucket that fills at the rate of the limit, and from which the admitted amounts of all nodes are
//! taken. It holds the limit, and the inflow of the time in which a share follows its source.

use crate::budget::Limit;
use crate::time::Millis;

/// The number of periods in which a share follows its source.
const FOLLOWS: u64 = 3;

/// A bucket. All amounts are multiplied by the milliseconds of a window, so that rounding loses
/// nothing.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    left: i128,
    /// The lowest levels since a window began, and in the window before.
    lows: [i128; 2],
    /// The time since it began.
    since: Millis,
}

impl Rate {
    /// Returns a bucket that contains the limit.
    pub fn full(limit: &Limit) -> Self {
        Self {
            left: times(limit, limit.window),
            lows: [0; 2],
            since: 0,
        }
    }

    /// Advances by a period in which `passed` was admitted on all nodes.
    pub fn after(mut self, limit: &Limit, period: Millis, passed: u64) -> Self {
        let (whole, behind) = (times(limit, limit.window), times(limit, FOLLOWS * period));
        let taken = i128::from(passed) * i128::from(limit.window);
        // Nodes that admit at the same time may admit too much, as may a window that ends within a
        // period. Up to this amount is paid back, also if a peer invented it.
        let filled = self.left + times(limit, period) - taken;
        self.left = filled.clamp(-behind, whole + behind);
        if self.left > whole {
            // A level that was never used is not available to a late share.
            let spare = self.lows[0].min(self.lows[1]).max(0);
            self.left = (self.left - spare).max(whole);
        }
        self.since += period;
        self.lows[0] = self.lows[0].min(self.left);
        if self.since >= limit.window {
            (self.lows, self.since) = ([self.left, self.lows[0]], 0);
        }
        self
    }

    /// Returns the amount that may pass at once.
    pub fn left(&self, limit: &Limit) -> u64 {
        let left = self.left.max(0) / i128::from(limit.window.max(1));
        u64::try_from(left).unwrap_or(u64::MAX)
    }
}

/// Returns the inflow in a time.
fn times(limit: &Limit, time: Millis) -> i128 {
    i128::from(limit.amount) * i128::from(time)
}
