//! The sliding log at times that lie between two others.

use std::collections::VecDeque;

use super::{Bracket, Bracketed};

/// See [`oracle::SlidingLog`](crate::exactness::oracle::SlidingLog).
#[derive(Clone, Debug, PartialEq)]
pub struct SlidingLog {
    amount: usize,
    window_ns: u64,
    /// The packets that were admitted and can still matter, in order of time: two that came at once
    /// give one state in either order.
    admitted: VecDeque<Bracket>,
}

impl SlidingLog {
    /// An empty log.
    pub fn new(amount: u64, window_ns: u64) -> Self {
        Self {
            amount: usize::try_from(amount).expect("a log fits into memory"),
            window_ns,
            admitted: VecDeque::new(),
        }
    }
}

impl Bracketed for SlidingLog {
    fn follow(&self, at: Bracket, is_admitted: bool, states: &mut Vec<Self>) {
        let is_in = |of_ns: u64, at_ns: u64| of_ns + self.window_ns > at_ns;
        let least = |of: &&Bracket| is_in(of.earliest_ns, at.latest_ns);
        let most = |of: &&Bracket| is_in(of.latest_ns, at.earliest_ns);
        if is_admitted && self.admitted.iter().filter(least).count() < self.amount {
            let mut next = self.clone();
            next.force(at, true);
            states.push(next);
        }
        if !is_admitted && self.admitted.iter().filter(most).count() >= self.amount {
            states.push(self.clone());
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.admitted == other.admitted
    }

    fn force(&mut self, at: Bracket, is_admitted: bool) {
        if is_admitted {
            // Packets of the other CPU may be judged earlier than this one, but by less than a
            // window.
            let old = |of: &Bracket| of.latest_ns + 2 * self.window_ns < at.earliest_ns;
            while self.admitted.front().is_some_and(old) {
                self.admitted.pop_front();
            }
            let order = |of: &Bracket| (of.earliest_ns, of.latest_ns);
            let is_before = |of: &Bracket| order(of) <= order(&at);
            let place = self.admitted.partition_point(is_before);
            self.admitted.insert(place, at);
        }
    }
}
