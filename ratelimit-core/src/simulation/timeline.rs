//! Packets over time, in intervals of equal length.
//!
//! The length of a capture is only known at its end. So packets are counted in short intervals at
//! first, which are merged into longer ones when there are too many.

use std::time::Duration;

use ratelimit_common::Verdict;

use super::{answer::Interval, tally::Tally};

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;
const M: u64 = 60 * S;
const H: u64 = 60 * M;
const D: u64 = 24 * H;

/// The lengths that are counted in: each divides the next.
const COUNTED: [u64; 10] = [MS, 10 * MS, 100 * MS, S, 10 * S, M, 10 * M, H, 6 * H, D];
/// The most intervals that are counted, before they are put together.
const COUNTED_MAX: u64 = 1200;
/// The lengths that people like to see.
const SHOWN: [u64; 29] = [
    MS,
    2 * MS,
    5 * MS,
    10 * MS,
    20 * MS,
    50 * MS,
    100 * MS,
    200 * MS,
    500 * MS,
    S,
    2 * S,
    5 * S,
    10 * S,
    20 * S,
    30 * S,
    M,
    2 * M,
    5 * M,
    10 * M,
    20 * M,
    30 * M,
    H,
    2 * H,
    3 * H,
    6 * H,
    12 * H,
    D,
    7 * D,
    30 * D,
];
/// The most intervals that are shown, where the length was left to us.
const SHOWN_MAX: u64 = 40;
/// The most intervals where the length was asked for.
const ASKED_MAX: u64 = 10_000;

/// Intervals that were asked for, and are too many.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("the capture has more than {ASKED_MAX} intervals: use a longer interval, or omit it")]
pub struct TooManyIntervals;

/// Packets by interval. The first interval begins with the first packet.
#[derive(Clone, Debug)]
pub struct Timeline {
    length_ns: u64,
    is_asked: bool,
    tallies: Vec<Tally>,
}

impl Timeline {
    /// Intervals of a length, or of one that suits the capture.
    pub fn new(asked: Option<Duration>) -> Self {
        let length_ns = asked.map(|asked| u64::try_from(asked.as_nanos()).unwrap_or(u64::MAX));
        Self {
            length_ns: length_ns.unwrap_or(COUNTED[0]).max(1),
            is_asked: asked.is_some(),
            tallies: Vec::new(),
        }
    }

    /// Counts a packet.
    ///
    /// # Errors
    ///
    /// When the intervals that were asked for become too many.
    pub fn count(&mut self, since_first_ns: u64, verdict: Verdict) -> Result<(), TooManyIntervals> {
        if self.is_asked && since_first_ns / self.length_ns >= ASKED_MAX {
            return Err(TooManyIntervals);
        }
        while !self.is_asked && since_first_ns / self.length_ns >= COUNTED_MAX {
            let longer = COUNTED.into_iter().find(|length| *length > self.length_ns);
            self.lengthen(longer.unwrap_or(self.length_ns * 10));
        }
        let index = usize::try_from(since_first_ns / self.length_ns).unwrap_or(usize::MAX);
        if index >= self.tallies.len() {
            self.tallies.resize(index + 1, Tally::default());
        }
        self.tallies[index].count(verdict);
        Ok(())
    }

    /// Returns the length of the intervals, and the counts in each.
    pub fn intervals(&self) -> (Duration, Vec<Interval>) {
        let mut shown = self.clone();
        if !self.is_asked {
            let total = self.length_ns.saturating_mul(self.tallies.len() as u64);
            let suits = |length: &u64| {
                length.is_multiple_of(self.length_ns) && total.div_ceil(*length) <= SHOWN_MAX
            };
            let together = (self.tallies.len() as u64).div_ceil(SHOWN_MAX).max(1);
            let longest = self.length_ns.saturating_mul(together);
            shown.lengthen(SHOWN.into_iter().find(suits).unwrap_or(longest));
        }
        let length = Duration::from_nanos(shown.length_ns);
        let intervals = (0..).zip(shown.tallies).map(|(index, tally)| Interval {
            start_seconds: (length * index).as_secs_f64(),
            tally,
        });
        (length, intervals.collect())
    }

    fn lengthen(&mut self, length_ns: u64) {
        let together = usize::try_from(length_ns / self.length_ns).unwrap_or(usize::MAX);
        let sums = self.tallies.chunks(together).map(|tallies| {
            tallies.iter().fold(Tally::default(), |mut sum, tally| {
                sum.add(*tally);
                sum
            })
        });
        self.tallies = sums.collect();
        self.length_ns = length_ns;
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_common::{DropReason, PassReason};

    use super::*;

    const PASS: Verdict = Verdict::Pass(PassReason::Conforming);
    const DROP: Verdict = Verdict::Drop(DropReason::Limited);

    #[test]
    fn lengths_divide_the_next_so_that_no_count_is_split() {
        assert!(
            COUNTED
                .windows(2)
                .all(|pair| pair[1].is_multiple_of(pair[0]))
        );
    }

    #[test]
    fn the_length_suits_the_capture_and_no_packet_is_lost() {
        for (last, length, rows) in [
            (0, MS, 1),
            (24 * S, S, 25),
            (40 * S, 2 * S, 21),
            (400 * MS, 20 * MS, 21),
            (H, 2 * M, 31),
            (10 * D, 12 * H, 21),
            (5000 * D, 130 * D, 39),
        ] {
            let mut timeline = Timeline::new(None);
            for part in 0..=100 {
                timeline.count(last / 100 * part, PASS).unwrap();
            }
            let (shown, intervals) = timeline.intervals();
            assert_eq!(
                (shown, intervals.len()),
                (Duration::from_nanos(length), rows)
            );
            let sum: u64 = intervals.iter().map(|interval| interval.tally.passed).sum();
            assert_eq!(sum, 101);
        }
    }

    #[test]
    fn a_length_that_is_asked_for_is_kept() {
        let mut timeline = Timeline::new(Some(Duration::from_millis(300)));
        for (time, verdict) in [(0, PASS), (299, DROP), (300, DROP), (900, PASS)] {
            timeline.count(time * MS, verdict).unwrap();
        }
        let (length, intervals) = timeline.intervals();
        assert_eq!(length, Duration::from_millis(300));
        let counts: Vec<_> = intervals
            .iter()
            .map(|row| (row.tally.passed, row.tally.dropped))
            .collect();
        assert_eq!(counts, [(1, 1), (0, 1), (0, 0), (1, 0)]);
        let starts: Vec<f64> = intervals.iter().map(|row| row.start_seconds).collect();
        assert!((starts[3] - 0.9).abs() < 1e-9);
    }

    #[test]
    fn too_many_intervals_are_refused() {
        let mut timeline = Timeline::new(Some(Duration::from_millis(1)));
        assert_eq!(timeline.count(9999 * MS, PASS), Ok(()));
        assert_eq!(timeline.count(10_000 * MS, PASS), Err(TooManyIntervals));
    }
}
