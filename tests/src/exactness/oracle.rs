//! The definition of each algorithm in the documentation, written as simply as possible, without
//! regard to speed.
//!
//! Each packet counts one. Times are nanoseconds and never go back. None of the limiter's code is
//! used.

use std::collections::VecDeque;

/// The definition of an algorithm, with what it remembers of one source.
pub trait Oracle {
    /// Whether a packet at `at_ns` is admitted, which is remembered.
    fn admits(&mut self, at_ns: u64) -> bool;
}

/// A window opens with the first packet that is admitted in none, and admits the amount.
#[derive(Clone, Debug)]
pub struct FixedWindow {
    amount: u64,
    window_ns: u64,
    tick_ns: u64,
    /// The times of the packets in the open window. The first opened it.
    admitted: Vec<u64>,
}

impl FixedWindow {
    /// A window of `window_ns` that admits `amount`.
    pub const fn new(amount: u64, window_ns: u64) -> Self {
        Self {
            amount,
            window_ns,
            tick_ns: fixed_window_tick_ns(window_ns),
            admitted: Vec::new(),
        }
    }
}

impl Oracle for FixedWindow {
    fn admits(&mut self, at_ns: u64) -> bool {
        let opened_ns = self.admitted.first();
        if opened_ns.is_some_and(|opened_ns| at_ns >= opened_ns + self.window_ns) {
            self.admitted.clear();
        }
        let fits = (self.admitted.len() as u64) < self.amount;
        if fits {
            let opens = self.admitted.is_empty();
            let tick_ns = if opens { at_ns % self.tick_ns } else { 0 };
            self.admitted.push(at_ns - tick_ns);
        }
        fits
    }
}

/// The tick in which a fixed window opens, in nanoseconds. It is a power of two, at most a 16,000th
/// of a window of less than an hour, from which it lasts its whole length.
pub const fn fixed_window_tick_ns(window_ns: u64) -> u64 {
    let Some(power) = (window_ns / 1000).checked_ilog2() else {
        return 1;
    };
    if power < 4 { 1 } else { 1 << (power - 4) }
}

/// A packet is admitted when fewer than the amount were in the window that ends with it.
#[derive(Clone, Debug)]
pub struct SlidingLog {
    amount: u64,
    window_ns: u64,
    /// The times of the packets in the last window.
    admitted: VecDeque<u64>,
}

impl SlidingLog {
    /// A log that admits `amount` in any `window_ns`.
    pub const fn new(amount: u64, window_ns: u64) -> Self {
        Self {
            amount,
            window_ns,
            admitted: VecDeque::new(),
        }
    }

    /// Drops times a window or more before `at_ns`, and returns the number of remaining packets.
    pub fn used(&mut self, at_ns: u64) -> u64 {
        while self
            .admitted
            .front()
            .is_some_and(|first| first + self.window_ns <= at_ns)
        {
            self.admitted.pop_front();
        }
        self.admitted.len() as u64
    }

    /// Remembers a packet that was admitted, by whomever.
    pub fn push(&mut self, at_ns: u64) {
        self.admitted.push_back(at_ns);
    }
}

impl Oracle for SlidingLog {
    fn admits(&mut self, at_ns: u64) -> bool {
        let fits = self.used(at_ns) < self.amount;
        if fits {
            self.push(at_ns);
        }
        fits
    }
}

/// A bucket is full at first, is filled with the amount a window, evenly, and a packet takes a
/// token out.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    amount: i128,
    window_ns: i128,
    /// A full bucket, in tokens times `window_ns`: then what flows in within a nanosecond is
    /// `amount`, a whole number.
    full: i128,
    level: i128,
    last_ns: i128,
}

impl TokenBucket {
    /// A bucket of `burst` tokens into which `amount` flow in each `window_ns`.
    pub fn new(amount: u64, window_ns: u64, burst: u64) -> Self {
        let full = i128::from(burst) * i128::from(window_ns);
        Self {
            amount: amount.into(),
            window_ns: window_ns.into(),
            full,
            level: full,
            last_ns: 0,
        }
    }
}

impl Oracle for TokenBucket {
    fn admits(&mut self, at_ns: u64) -> bool {
        let elapsed_ns = i128::from(at_ns) - self.last_ns;
        self.last_ns = at_ns.into();
        self.level = self.full.min(self.level + elapsed_ns * self.amount);
        let fits = self.level >= self.window_ns;
        if fits {
            self.level -= self.window_ns;
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_window_admits_the_amount_in_the_window_that_the_first_packet_opens() {
        let packets = [(5, true), (6, true), (7, false), (104, false), (105, true)];
        check(FixedWindow::new(2, 100), &packets);
    }

    #[test]
    fn ticks_are_a_small_part_of_the_window_whatever_the_amount() {
        let ticks = [10, 20, 1_000, 60_000].map(|ms| fixed_window_tick_ns(ms * 1_000_000));
        assert_eq!(ticks, [512, 1_024, 32_768, 2_097_152]);
    }

    #[test]
    fn a_log_admits_the_amount_in_any_window() {
        let packets = [
            (5, true),
            (50, true),
            (104, false),
            (105, true),
            (149, false),
            (150, true),
        ];
        check(SlidingLog::new(2, 100), &packets);
    }

    #[test]
    fn a_bucket_admits_its_burst_and_then_each_token_as_it_flows_in() {
        let packets = [
            (0, true),
            (0, true),
            (33, false),
            (34, true),
            (66, false),
            (67, true),
        ];
        check(TokenBucket::new(3, 100, 2), &packets);
    }

    fn check(mut oracle: impl Oracle, packets: &[(u64, bool)]) {
        for (at_ns, expected) in packets {
            assert_eq!(oracle.admits(*at_ns), *expected, "{at_ns}");
        }
    }
}
