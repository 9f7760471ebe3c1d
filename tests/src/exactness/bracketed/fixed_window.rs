//! The fixed window at times that lie between two others.

use super::{Bracket, Bracketed};
use crate::exactness::oracle::fixed_window_tick_ns;

/// See [`oracle::FixedWindow`](crate::exactness::oracle::FixedWindow).
#[derive(Clone, Debug, PartialEq)]
pub struct FixedWindow {
    amount: u64,
    window_ns: u64,
    tick_ns: u64,
    /// The time at which the window opened; it is none if nothing was admitted in it.
    opened: Bracket,
    count: u64,
}

impl FixedWindow {
    /// A window that has not opened.
    pub const fn new(amount: u64, window_ns: u64) -> Self {
        Self {
            amount,
            window_ns,
            tick_ns: fixed_window_tick_ns(window_ns),
            opened: Bracket {
                earliest_ns: 0,
                latest_ns: 0,
            },
            count: 0,
        }
    }

    fn opening(&self, opened: Bracket) -> Self {
        Self {
            opened,
            count: 1,
            ..*self
        }
    }
}

impl Bracketed for FixedWindow {
    fn follow(&self, at: Bracket, is_admitted: bool, states: &mut Vec<Self>) {
        let opened = self.opened;
        let can_be_open = self.count > 0 && at.earliest_ns < opened.latest_ns + self.window_ns;
        if can_be_open && is_admitted == (self.count < self.amount) {
            // It opened less than a window before this packet.
            let after_ns = (at.earliest_ns + 1).saturating_sub(self.window_ns);
            states.push(Self {
                opened: Bracket {
                    earliest_ns: opened.earliest_ns.max(after_ns),
                    ..opened
                },
                count: self.count + u64::from(is_admitted),
                ..*self
            });
        }
        let closes_ns = if self.count == 0 {
            0
        } else {
            opened.earliest_ns + self.window_ns
        };
        if is_admitted && at.latest_ns >= closes_ns {
            let earliest_ns = at.earliest_ns.max(closes_ns);
            states.push(self.opening(Bracket {
                earliest_ns: earliest_ns - earliest_ns % self.tick_ns,
                ..at
            }));
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.count == other.count && self.opened.covers(other.opened)
    }

    /// A packet that was admitted did not fit, one that was refused did: the window is what it was.
    fn force(&mut self, _: Bracket, _: bool) {}
}
