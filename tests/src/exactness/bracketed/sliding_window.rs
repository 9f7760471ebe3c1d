//! The sliding window, by its own definition, at times that lie between two others.

use super::{Bracket, Bracketed};

/// The sliding window by its definition: the count of a window, plus the remaining share of the
/// previous count.
#[derive(Clone, Debug, PartialEq)]
pub struct SlidingWindow {
    amount: u64,
    window_ns: u64,
    index: u64,
    previous: u64,
    count: u64,
}

/// Weights are rounded up as if the packet came so much earlier: by a tick, and the nanosecond of
/// rounding itself.
const SLIDING_WINDOW_EARLIER_NS: u64 = 512 + 1;

impl SlidingWindow {
    /// An empty window. The amount is below 2,048 and the window 2^24 ns, so that neither is
    /// rounded.
    pub const fn new(amount: u64, window_ns: u64) -> Self {
        assert!(amount < 2_048 && window_ns == 1 << 24);
        Self {
            amount,
            window_ns,
            index: 0,
            previous: 0,
            count: 0,
        }
    }

    /// The state before a packet in the window with this number, which may have begun before it was
    /// judged.
    fn at(&self, index: u64) -> Self {
        let (previous, count) = match index.checked_sub(self.index) {
            None | Some(0) => return self.clone(),
            Some(1) => (self.count, 0),
            Some(_) => (0, 0),
        };
        Self {
            index,
            previous,
            count,
            ..*self
        }
    }
}

impl Bracketed for SlidingWindow {
    fn follow(&self, at: Bracket, is_admitted: bool, states: &mut Vec<Self>) {
        let earliest_ns = at.earliest_ns.saturating_sub(SLIDING_WINDOW_EARLIER_NS);
        for index in earliest_ns / self.window_ns..=at.latest_ns / self.window_ns {
            let mut state = self.at(index);
            let begins_ns = state.index * self.window_ns;
            // The elapsed part of the window at the earliest and the latest time: none for a packet
            // from before it.
            let over_least_ns = earliest_ns.saturating_sub(begins_ns);
            let over_most_ns = at
                .latest_ns
                .saturating_sub(begins_ns)
                .min(self.window_ns - 1);
            let over_ns = if is_admitted {
                over_most_ns
            } else {
                over_least_ns
            };
            let weighed = state.previous * (self.window_ns - over_ns);
            let fits = (state.count + 1) * self.window_ns + weighed <= self.amount * self.window_ns;
            if fits == is_admitted {
                state.count += u64::from(is_admitted);
                states.push(state);
            }
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self == other
    }

    fn force(&mut self, at: Bracket, is_admitted: bool) {
        *self = self.at(at.latest_ns / self.window_ns);
        self.count += u64::from(is_admitted);
    }
}
