//! What a limit admits, by the definition of a fixed window that the tests of exactness have.
//!
//! A sender does not know at which instant the kernel looked at a packet, only that it was between two. Where a window may
//! have closed just in between, both answers are followed to the end. So the expectation is a range; nearly always it holds
//! one number.

use std::ops::RangeInclusive;

use ratelimit_tests::exactness::bracketed::{Bracket, Bracketed, FixedWindow};

/// The window of every limit in the demo, in nanoseconds.
const WINDOW_NS: u64 = 1_000_000_000;

/// How many of a source's packets are admitted, `amount` in a window; all of them where there is no limit.
pub fn admitted(amount: Option<u64>, packets: &[Bracket]) -> RangeInclusive<u64> {
    let Some(amount) = amount else {
        let all = packets.len() as u64;
        return all..=all;
    };
    let mut histories = vec![(FixedWindow::new(amount, WINDOW_NS), 0)];
    for &packet in packets {
        let mut next = vec![];
        for (window, admitted) in &histories {
            for is_admitted in [false, true] {
                let mut windows = vec![];
                window.follow(packet, is_admitted, &mut windows);
                for window in windows {
                    add(&mut next, (window, admitted + u64::from(is_admitted)));
                }
            }
        }
        histories = next;
    }
    let counts = || histories.iter().map(|(_, admitted)| *admitted);
    counts().min().unwrap_or(0)..=counts().max().unwrap_or(0)
}

/// Keeps no history that another one includes.
fn add(histories: &mut Vec<(FixedWindow, u64)>, new: (FixedWindow, u64)) {
    let includes = |left: &(FixedWindow, u64), right: &(FixedWindow, u64)| {
        left.1 == right.1 && left.0.covers(&right.0)
    };
    if !histories.iter().any(|known| includes(known, &new)) {
        histories.retain(|known| !includes(&new, known));
        histories.push(new);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_admits_its_limit_and_the_next_one_opens_with_a_packet() {
        check(3, &[], 0..=0);
        check(2, &[0, 1, 2, 998, 1500, 1501, 1502], 4..=4);
        check(2, &[0, 1, 2, 998, 1500, 2400, 2498], 4..=4);
    }

    #[test]
    fn a_source_within_its_limit_loses_nothing() {
        let packets: Vec<u64> = (0..200).map(|number| number * 11).collect();
        check(100, &packets, 200..=200);
        assert_eq!(admitted(None, &brackets(&packets)), 200..=200);
    }

    #[test]
    fn both_answers_count_where_a_window_may_have_closed() {
        // The window that the first packet opens closes between 1000 and 1001, and the second comes between these.
        check(1, &[0, 1000], 1..=2);
        check(1, &[0, 1000, 1500], 2..=2);
        check(1, &[0, 1000, 1500, 2200], 2..=3);
    }

    #[test]
    fn doubt_at_a_boundary_does_not_grow_when_every_window_fills() {
        let packets: Vec<u64> = (0..4500).collect();
        check(100, &packets, 500..=500);
    }

    fn check(amount: u64, times_ms: &[u64], expected: RangeInclusive<u64>) {
        let found = admitted(Some(amount), &brackets(times_ms));
        assert_eq!(found, expected, "{times_ms:?}");
    }

    /// Packets that are each looked at within a millisecond after one of these times.
    fn brackets(times_ms: &[u64]) -> Vec<Bracket> {
        let bracket = |&time_ms: &u64| Bracket {
            earliest_ns: time_ms * 1_000_000,
            latest_ns: (time_ms + 1) * 1_000_000,
        };
        times_ms.iter().map(bracket).collect()
    }
}
