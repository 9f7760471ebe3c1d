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

    /// The time at which a packet is judged and logged: its own, or that of a newer one which the
    /// other CPU logged while this one was under way. A time that is uncertain lasts until the
    /// packet was finished, which is late enough for both.
    fn up_to_newest(&self, at: Bracket) -> Bracket {
        let is_certain = at.earliest_ns == at.latest_ns;
        let newest_ns = self.admitted.iter().map(|of| of.latest_ns).max();
        let newest_ns = newest_ns.filter(|_| is_certain).unwrap_or(0);
        Bracket {
            latest_ns: at.latest_ns.max(newest_ns),
            ..at
        }
    }
}

impl Bracketed for SlidingLog {
    fn follow(&self, at: Bracket, is_admitted: bool, states: &mut Vec<Self>) {
        let at = self.up_to_newest(at);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_overtaken_by_a_newer_one_is_judged_at_that_ones_time() {
        let admitted_at = |log: &SlidingLog, at_ns| {
            let mut states = vec![];
            log.follow(exactly(at_ns), true, &mut states);
            states.pop()
        };
        let mut log = SlidingLog::new(2, 100);
        for at_ns in [0, 10, 160] {
            log = admitted_at(&log, at_ns).expect("there is room");
        }
        // The packet at 10 is in the window of this one at 105, and not in that of the one at 160.
        let full = admitted_at(&log, 105).expect("it can be judged at 160");
        assert_eq!(admitted_at(&full, 161), None);
    }

    const fn exactly(at_ns: u64) -> Bracket {
        Bracket {
            earliest_ns: at_ns,
            latest_ns: at_ns,
        }
    }
}
