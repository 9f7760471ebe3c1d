//! A histogram of durations.

use std::time::Duration;

/// Upper bounds of the buckets in seconds, from a fast commit to an unacceptable wait.
const BOUNDS: [f64; 8] = [0.0001, 0.001, 0.01, 0.1, 0.5, 1.0, 5.0, 30.0];

/// Times, by the smallest bucket that has room for them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Histogram {
    counts: [u64; BOUNDS.len()],
    count: u64,
    sum: Duration,
}

impl Histogram {
    /// Counts one.
    pub fn observe(&mut self, took: Duration) {
        let bucket = BOUNDS.iter().position(|end| took.as_secs_f64() <= *end);
        if let Some(count) = bucket.and_then(|bucket| self.counts.get_mut(bucket)) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(took);
    }

    /// Returns the cumulative count for each upper bound.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let mut sum = 0;
        BOUNDS
            .into_iter()
            .zip(self.counts)
            .map(move |(end, count)| {
                sum += count;
                (end, sum)
            })
    }

    /// Returns the number of durations.
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Returns their sum in seconds.
    pub fn sum_seconds(&self) -> f64 {
        self.sum.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_its_bucket_and_in_all_wider_ones() {
        let mut histogram = Histogram::default();
        for took in [1, 100, 101, 5_000_000, 40_000_000] {
            histogram.observe(Duration::from_micros(took));
        }
        let counts: Vec<u64> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(counts, [2, 3, 3, 3, 3, 3, 4, 4]);
        assert_eq!(
            (histogram.count(), histogram.sum_seconds()),
            (5, 45.000_202)
        );
    }
}
