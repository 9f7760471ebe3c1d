//! The token bucket at times that lie between two others.

use super::{Bracket, Bracketed};

/// See [`oracle::TokenBucket`](crate::exactness::oracle::TokenBucket). Times are in parts:
/// nanoseconds times the amount, of which a token takes `window_ns`.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenBucket {
    amount: i128,
    window_ns: i128,
    /// The time in which an empty bucket fills.
    fills_in: i128,
    /// The earliest and the latest time at which the bucket is full again.
    full_at: (i128, i128),
    /// The time by which a packet may be judged earlier or later.
    rounding: i128,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(amount: u64, window_ns: u64, burst: u64) -> Self {
        Self {
            amount: amount.into(),
            window_ns: window_ns.into(),
            fills_in: i128::from(burst) * i128::from(window_ns),
            full_at: (0, 0),
            rounding: 0,
        }
    }

    /// The same where a packet may be judged by a 16,384th of a token more or less, and by a
    /// nanosecond.
    pub const fn rounded(self) -> Self {
        Self {
            rounding: self.window_ns / 16_384 + self.amount,
            ..self
        }
    }

    fn parts(&self, at: Bracket) -> (i128, i128) {
        let parts = |at_ns| i128::from(at_ns) * self.amount;
        (
            parts(at.earliest_ns) - self.rounding,
            parts(at.latest_ns) + self.rounding,
        )
    }

    fn charged(&self, (earliest, latest): (i128, i128)) -> Self {
        Self {
            full_at: (earliest + self.window_ns, latest + self.window_ns),
            ..*self
        }
    }
}

impl Bracketed for TokenBucket {
    fn follow(&self, at: Bracket, is_admitted: bool, states: &mut Vec<Self>) {
        let (earliest, latest) = self.parts(at);
        let (full_earliest, full_latest) = self.full_at;
        // A token is in the bucket as long as it is full at most so much later.
        let ahead_most = self.fills_in - self.window_ns;
        if is_admitted && full_earliest <= latest + ahead_most {
            let full_latest = full_latest.max(latest).min(latest + ahead_most);
            states.push(self.charged((full_earliest.max(earliest), full_latest)));
        }
        if !is_admitted && full_latest > earliest + ahead_most {
            states.push(Self {
                full_at: (full_earliest.max(earliest + ahead_most + 1), full_latest),
                ..*self
            });
        }
    }

    fn covers(&self, other: &Self) -> bool {
        self.full_at.0 <= other.full_at.0 && other.full_at.1 <= self.full_at.1
    }

    fn force(&mut self, at: Bracket, is_admitted: bool) {
        let (earliest, latest) = self.parts(at);
        if is_admitted {
            *self = self.charged((self.full_at.0.max(earliest), self.full_at.1.max(latest)));
        }
    }
}
