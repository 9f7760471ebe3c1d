//! What may pass of a limit in the long run, on all nodes together.
//!
//! A source that goes to another node finds its share there late in a window, and a whole one in the next. So each move would admit more, or
//! less, by where in a window it comes. This is a bucket that is filled at the rate of the limit: what all nodes admitted is taken out. It holds
//! the limit, and what comes in while a share follows its source.

use crate::budget::Limit;
use crate::time::Millis;

/// A share follows its source in so many periods.
const FOLLOWS: u64 = 3;

/// A bucket. All amounts are as many times larger as a window has milliseconds, so that nothing is lost to rounding.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    left: i128,
    /// The least that was left since a window began, and in the window before.
    lows: [i128; 2],
    /// How long ago it began.
    since: Millis,
}

impl Rate {
    /// A bucket that holds the limit.
    pub fn full(limit: &Limit) -> Self {
        Self {
            left: times(limit, limit.window),
            lows: [0; 2],
            since: 0,
        }
    }

    /// A period later, in which so much passed on all nodes.
    pub fn after(mut self, limit: &Limit, period: Millis, passed: u64) -> Self {
        let (whole, behind) = (times(limit, limit.window), times(limit, FOLLOWS * period));
        let taken = i128::from(passed) * i128::from(limit.window);
        // Nodes that take the same at once may take too much, and so does a window that ends within a period. Up to this much of it is
        // paid back, also of what a peer makes up.
        let filled = self.left + times(limit, period) - taken;
        self.left = filled.clamp(-behind, whole + behind);
        if self.left > whole {
            // What was left all the time is not for a share that is late.
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

    /// What may pass at once.
    pub fn left(&self, limit: &Limit) -> u64 {
        let left = self.left.max(0) / i128::from(limit.window.max(1));
        u64::try_from(left).unwrap_or(u64::MAX)
    }
}

/// What comes in in a time.
fn times(limit: &Limit, time: Millis) -> i128 {
    i128::from(limit.amount) * i128::from(time)
}
