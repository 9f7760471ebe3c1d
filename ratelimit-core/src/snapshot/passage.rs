//! Converts the words of a snapshot to the clock of another boot.

use ratelimit_common::{
    Instant,
    algorithm::{Algorithm, SlidingLog},
};

/// One moment on the kernel's clocks of two boots: the one of the snapshot, and this one.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// This moment, if the clock of then had continued.
    pub from: Instant,
    /// This moment.
    pub to: Instant,
}

impl Passage {
    /// Translates `word` of the limit `before` to the equivalent limit `after`, so that at least as
    /// much is in use now; 0 if nothing is.
    ///
    /// - A fixed window ends at its original end, up to a tick later: a thousandth of it at most.
    /// - Sliding windows begin at other times in each boot. Usage counts from a window that ends no
    ///   earlier: up to a window longer than originally.
    /// - A token bucket has its exact level, rounded to whole tokens.
    pub fn word(&self, word: u64, before: &Algorithm, after: &Algorithm) -> u64 {
        let used = before.used(word, self.from).min(after.capacity());
        if used == 0 || before.meaning() != after.meaning() {
            return 0;
        }
        let left_ns = before.counts_for_ns(word, self.from);
        let to = self.to.as_nanos();
        let at = match after {
            Algorithm::FixedWindow(fixed) => {
                // A window that opened after this moment, as clocks are read one after the other,
                // has all of its time left.
                let left_ns = if left_ns == 0 {
                    fixed.window_ns()
                } else {
                    left_ns
                };
                to.wrapping_add(left_ns)
                    .wrapping_sub(fixed.window_ns())
                    .wrapping_add(fixed.tick_ns() - 1)
            }
            Algorithm::SlidingWindow(sliding) => {
                let is_over_later = after.counts_for_ns(0, self.to) >= left_ns;
                let ahead = if is_over_later {
                    0
                } else {
                    sliding.window_ns()
                };
                to.wrapping_add(ahead)
            }
            Algorithm::TokenBucket(_) | Algorithm::SlidingLog(_) => to,
        };
        after
            .step(0, Instant::from_nanos(at), used)
            .unwrap_or_default()
    }

    /// Returns the times of a log that still count, in order. Times before the boot count as the
    /// boot.
    pub fn times(&self, times: &[u64], log: &SlidingLog) -> Vec<u64> {
        let (from, to) = (self.from.as_nanos(), self.to.as_nanos());
        let counts = |time: &&u64| **time != 0 && time.saturating_add(log.window_ns()) > from;
        let moved = |time: &u64| {
            let ago = from.saturating_sub(*time);
            to.saturating_sub(ago).max(1)
        };
        let mut times: Vec<u64> = times.iter().filter(counts).map(moved).collect();
        times.sort_unstable();
        times
    }
}
