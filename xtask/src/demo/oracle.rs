//! What a limit admits, by the obvious definition: a window opens with a source's first packet, and the next one with the
//! first packet after it closed.
//!
//! A sender does not know at which instant the kernel looked at a packet, only that it was between two. Where a window may
//! have closed just in between, both answers are followed to the end, so the expectation is a range; nearly always it holds
//! one number.

use std::{collections::BTreeSet, ops::RangeInclusive, time::Duration};

/// The window of every limit in the demo.
pub const WINDOW: Duration = Duration::from_secs(1);

/// What a source may send in a [`WINDOW`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// So many packets.
    Packets(u64),
    /// So many bytes.
    Bytes(u64),
}

/// A packet on its way: between which two times the kernel looked at it.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// Not before this time.
    pub earliest: Duration,
    /// Not after this time.
    pub latest: Duration,
    /// The bytes of its frame.
    pub bytes: u64,
}

/// One way in which it may have gone so far.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd)]
struct State {
    /// When the window opened, as exactly as it is known.
    opened: Option<(Duration, Duration)>,
    used: u64,
    admitted: u64,
}

/// How many of a source's packets are admitted.
pub fn admitted(limit: Limit, packets: &[Passage]) -> RangeInclusive<u64> {
    let mut states = BTreeSet::from([State::default()]);
    for packet in packets {
        states = states
            .iter()
            .flat_map(|state| state.after(limit, packet))
            .flatten()
            .collect();
    }
    let counts = || states.iter().map(|state| state.admitted);
    counts().min().unwrap_or(0)..=counts().max().unwrap_or(0)
}

/// All of a source's packets: what is admitted where no limit is.
pub fn all(packets: &[Passage]) -> RangeInclusive<u64> {
    let count = packets.iter().map(|_| 1).sum();
    count..=count
}

impl State {
    /// The packet meets the open window, or opens one, or may have done either.
    fn after(&self, limit: Limit, packet: &Passage) -> [Option<Self>; 2] {
        let (may_meet, may_open) = match self.opened {
            None => (false, true),
            Some((earliest, latest)) => (
                packet.earliest < latest + WINDOW,
                packet.latest >= earliest + WINDOW,
            ),
        };
        let fresh = Self {
            opened: Some((packet.earliest, packet.latest)),
            used: 0,
            ..*self
        };
        [
            may_meet.then(|| self.charged(limit, packet)),
            may_open.then(|| fresh.charged(limit, packet)),
        ]
    }

    fn charged(&self, limit: Limit, packet: &Passage) -> Self {
        let (amount, cost) = match limit {
            Limit::Packets(amount) => (amount, 1),
            Limit::Bytes(amount) => (amount, packet.bytes),
        };
        if self.used + cost > amount {
            return *self;
        }
        Self {
            used: self.used + cost,
            admitted: self.admitted + 1,
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_sent_is_nothing_admitted() {
        check(Limit::Packets(3), &[], 0..=0);
    }

    #[test]
    fn a_window_admits_its_limit_and_the_next_one_opens_with_a_packet() {
        check(Limit::Packets(2), &[0, 1, 2, 998, 1500, 1501, 1502], 4..=4);
        check(Limit::Packets(2), &[0, 1, 2, 998, 1500, 2400, 2498], 4..=4);
    }

    #[test]
    fn a_source_within_its_limit_loses_nothing() {
        let packets: Vec<u64> = (0..200).map(|number| number * 11).collect();
        check(Limit::Packets(100), &packets, 200..=200);
    }

    #[test]
    fn bytes_are_those_of_the_frames() {
        check(Limit::Bytes(250), &[0, 1, 2, 3, 1100], 3..=3);
    }

    #[test]
    fn both_answers_count_where_a_window_may_have_closed() {
        // The window that the first packet opens closes between 1000 and 1001, and the second comes between these.
        check(Limit::Packets(1), &[0, 1000], 1..=2);
        check(Limit::Packets(1), &[0, 1000, 1500], 2..=2);
        check(Limit::Packets(1), &[0, 1000, 1500, 2200], 2..=3);
    }

    #[test]
    fn doubt_at_a_boundary_does_not_grow_when_every_window_fills() {
        let packets: Vec<u64> = (0..4500).collect();
        check(Limit::Packets(100), &packets, 500..=500);
    }

    /// Packets of 100 bytes, each looked at within a millisecond after one of `times`.
    fn check(limit: Limit, times: &[u64], expected: RangeInclusive<u64>) {
        let packets: Vec<Passage> = times
            .iter()
            .map(|&time| Passage {
                earliest: Duration::from_millis(time),
                latest: Duration::from_millis(time + 1),
                bytes: 100,
            })
            .collect();
        assert_eq!(admitted(limit, &packets), expected, "{times:?}");
    }
}
