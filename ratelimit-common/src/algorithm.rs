//! The limiting algorithms: pure functions. Storage and atomicity are handled elsewhere.
//!
//! The state of each is one word, 0 for a source that was never charged. Only a sliding log has
//! more, in a separate ring.

mod fixed_window;
#[cfg(test)]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "arrivals need not be exact"
)]
mod properties;
pub mod sliding_log;
mod sliding_window;
mod token_bucket;

use crate::{
    Instant,
    features::{self, Feature},
};

pub use fixed_window::{FixedWindow, TICKS_MIN};
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// A packet that does not fit.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Denied;

/// The error of unsuitable parameters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ParameterError {
    /// Nothing would ever pass.
    ZeroAmount,
    /// The amount leaves too few bits for the time: with this window, at most `amount_max` fits
    /// into one word.
    Unrepresentable {
        /// The largest amount for this window.
        amount_max: u64,
    },
    /// No packet would ever fit into the bucket.
    ZeroBurst,
    /// The bucket holds more than fits into one word.
    BurstTooLarge {
        /// The largest burst.
        burst_max: u64,
    },
    /// More than [`sliding_log::TIMES_MAX`] times would have to be kept.
    TooLong,
}

/// An algorithm with its parameters.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Algorithm {
    /// At most the amount in a window that opens with the first packet of a source.
    FixedWindow(FixedWindow),
    /// At most the amount in a window, including a weighted part of the previous one.
    SlidingWindow(SlidingWindow),
    /// A burst, then a rate.
    TokenBucket(TokenBucket),
    /// At most the amount in any window.
    SlidingLog(SlidingLog),
}

impl Algorithm {
    /// The word after a packet of `cost` at `now`. A sliding log has none: its word does not
    /// change.
    ///
    /// # Errors
    ///
    /// [`Denied`] if there is no room for `cost`.
    #[inline(always)]
    pub fn step(&self, word: u64, now: Instant, cost: u64) -> Result<u64, Denied> {
        match self {
            Self::FixedWindow(window) => window.step(word, now, cost),
            Self::SlidingWindow(window) => window.step(word, now, cost),
            Self::TokenBucket(bucket) => bucket.step(word, now, cost),
            Self::SlidingLog(_) => Ok(word),
        }
    }

    /// The origin of the order of words at `now`: of two words, the one with the smaller (wrapping)
    /// difference to it is less debt. No step decreases a word.
    #[inline(always)]
    pub fn debt_origin(&self, now: Instant) -> u64 {
        match self {
            Self::FixedWindow(window) => window.debt_origin(now),
            Self::SlidingWindow(window) => window.debt_origin(now),
            Self::TokenBucket(bucket) => bucket.debt_origin(now),
            Self::SlidingLog(_) => 0,
        }
    }

    /// The word of another source after a newcomer at `now` inherited it. Its debt never decreases.
    #[inline(always)]
    pub fn taken_over(&self, word: u64, now: Instant) -> u64 {
        match self {
            Self::FixedWindow(window) => window.taken_over(word, now),
            Self::SlidingWindow(_) | Self::TokenBucket(_) | Self::SlidingLog(_) => word,
        }
    }

    /// The time after `now` for which the usage in the word still counts, in nanoseconds: until the
    /// end of its window. A bucket refills continuously.
    #[inline(always)]
    pub fn counts_for_ns(&self, word: u64, now: Instant) -> u64 {
        match self {
            Self::FixedWindow(window) => window.ends_in_ns(word, now),
            Self::SlidingWindow(window) => window.ends_in_ns(word, now),
            Self::TokenBucket(_) | Self::SlidingLog(_) => u64::MAX,
        }
    }

    /// The usage at `now`, rounded up.
    pub fn used(&self, word: u64, now: Instant) -> u64 {
        match self {
            Self::FixedWindow(window) => window.used(word, now),
            Self::SlidingWindow(window) => window.used(word, now),
            Self::TokenBucket(bucket) => bucket.used(word, now),
            Self::SlidingLog(_) => 0,
        }
    }

    /// The highest possible usage.
    pub const fn capacity(&self) -> u64 {
        match self {
            Self::FixedWindow(window) => window.amount(),
            Self::SlidingWindow(window) => window.amount(),
            Self::TokenBucket(bucket) => bucket.burst(),
            Self::SlidingLog(log) => log.amount(),
        }
    }

    /// Nanoseconds until the usage is 0, if no further packets arrive.
    pub fn clears_in_ns(&self, word: u64, now: Instant) -> u64 {
        self.first_ns(now, |at| self.used(word, at) == 0)
    }

    /// Nanoseconds until a packet of `cost` fits, if none comes before. 0 if one fits already.
    pub fn room_in_ns(&self, word: u64, now: Instant, cost: u64) -> u64 {
        self.first_ns(now, |at| self.step(word, at, cost).is_ok())
    }

    /// Replaces `before` at `now`. Only a token bucket has a clock to continue.
    pub fn after(self, before: &Self, now: Instant) -> Self {
        match (self, before) {
            (Self::TokenBucket(bucket), Self::TokenBucket(before)) => {
                Self::TokenBucket(bucket.after(before, now))
            }
            _ => self,
        }
    }

    /// Starts at `now`, without a known predecessor.
    pub fn starting(self, now: Instant) -> Self {
        match self {
            Self::TokenBucket(bucket) => Self::TokenBucket(bucket.starting(now)),
            Self::FixedWindow(_) | Self::SlidingWindow(_) | Self::SlidingLog(_) => self,
        }
    }

    /// Also accepts the words of another algorithm with the same clock.
    pub fn reading(self, other: &Self) -> Self {
        match (self, other) {
            (Self::TokenBucket(bucket), Self::TokenBucket(other)) => {
                Self::TokenBucket(bucket.reading(other))
            }
            _ => self,
        }
    }

    /// The meaning of a word. Another limit may only keep words with an equal meaning.
    pub const fn meaning(&self) -> [u64; 4] {
        match self {
            Self::FixedWindow(window) => {
                let [a, b, c] = window.meaning();
                [FIXED_WINDOW as u64, a, b, c]
            }
            Self::SlidingWindow(window) => {
                let [a, b, c] = window.meaning();
                [SLIDING_WINDOW as u64, a, b, c]
            }
            Self::TokenBucket(bucket) => {
                let [a, b, c] = bucket.meaning();
                [TOKEN_BUCKET as u64, a, b, c]
            }
            // A ring contains the times of packets, whatever the amount and the window.
            Self::SlidingLog(_) => [SLIDING_LOG as u64, 0, 0, 0],
        }
    }

    /// The most that becomes free in `nanos`, averaged over a window; 0 for a sliding log.
    #[inline(always)]
    pub(crate) fn comes_free(&self, nanos: u64) -> u64 {
        let of_window = |window_ns: u64| {
            let parts = window_ns.checked_div(nanos).unwrap_or(0);
            let capacity = self.capacity();
            capacity.checked_div(parts).unwrap_or(capacity)
        };
        match self {
            Self::FixedWindow(window) => of_window(window.window_ns()),
            Self::SlidingWindow(window) => of_window(window.window_ns()),
            Self::TokenBucket(bucket) => bucket.flows_in(nanos),
            Self::SlidingLog(_) => 0,
        }
    }

    /// Nanoseconds from `now` until `holds` becomes true. Without packets, it then stays true.
    fn first_ns(&self, now: Instant, holds: impl Fn(Instant) -> bool) -> u64 {
        let forgotten_in_ns = match self {
            Self::FixedWindow(window) => window.forgets_in_ns(),
            Self::SlidingWindow(window) => window.forgets_in_ns(),
            Self::TokenBucket(bucket) => bucket.forgets_in_ns(),
            Self::SlidingLog(_) => 0,
        };
        let (mut low, mut high) = (0u64, forgotten_in_ns);
        while low < high {
            let middle = low.midpoint(high);
            if holds(Instant::from_nanos(now.as_nanos().wrapping_add(middle))) {
                high = middle;
            } else {
                low = middle.saturating_add(1);
            }
        }
        low
    }
}

impl From<FixedWindow> for Algorithm {
    fn from(window: FixedWindow) -> Self {
        Self::FixedWindow(window)
    }
}

impl From<SlidingWindow> for Algorithm {
    fn from(window: SlidingWindow) -> Self {
        Self::SlidingWindow(window)
    }
}

impl From<TokenBucket> for Algorithm {
    fn from(bucket: TokenBucket) -> Self {
        Self::TokenBucket(bucket)
    }
}

impl From<SlidingLog> for Algorithm {
    fn from(log: SlidingLog) -> Self {
        Self::SlidingLog(log)
    }
}

/// An algorithm in a map: its tag and parameters.
const FIXED_WINDOW: u16 = 0;
pub(crate) const SLIDING_WINDOW: u16 = 1;
pub(crate) const TOKEN_BUCKET: u16 = 2;
const SLIDING_LOG: u16 = 3;

/// Whether a tag is this one of an algorithm that is a feature.
#[inline(always)]
fn is_tag<const FEATURE: u8>(tag: u16, algorithm: u16) -> bool {
    features::is_enabled_beside::<FEATURE>(tag.into()) && tag == algorithm
}

/// Whether a tag is that of a fixed window, which is no feature: every program includes it.
#[inline(always)]
pub(crate) fn is_fixed_window(tag: u16) -> bool {
    let number = tag.into();
    let has_others = features::is_enabled_beside::<{ Feature::SlidingWindow as u8 }>(number)
        || features::is_enabled_beside::<{ Feature::TokenBucket as u8 }>(number)
        || features::is_enabled_beside::<{ Feature::SlidingLog as u8 }>(number);
    !has_others || tag == FIXED_WINDOW
}

/// Whether a tag is that of a sliding log.
#[inline(always)]
pub(crate) fn is_log(tag: u16) -> bool {
    is_tag::<{ Feature::SlidingLog as u8 }>(tag, SLIDING_LOG)
}

/// The parameters of any algorithm. Each has its own type for them.
pub(crate) type Parameters = [u64; 3];

impl Algorithm {
    #[inline(always)]
    pub(crate) fn from_parts(tag: u16, parameters: Parameters) -> Self {
        if is_tag::<{ Feature::SlidingWindow as u8 }>(tag, SLIDING_WINDOW) {
            Self::SlidingWindow(zerocopy::transmute!(parameters))
        } else if is_tag::<{ Feature::TokenBucket as u8 }>(tag, TOKEN_BUCKET) {
            Self::TokenBucket(zerocopy::transmute!(parameters))
        } else if is_tag::<{ Feature::SlidingLog as u8 }>(tag, SLIDING_LOG) {
            Self::SlidingLog(zerocopy::transmute!(parameters))
        } else {
            Self::FixedWindow(zerocopy::transmute!(parameters))
        }
    }

    /// [`step`](Self::step) of the algorithm with this tag, by parameters that are read when they
    /// are needed.
    #[inline(always)]
    pub(crate) fn step_by(
        tag: u16,
        parameters: impl Fn() -> Parameters,
        word: u64,
        now: Instant,
        cost: u64,
    ) -> Result<u64, Denied> {
        if is_tag::<{ Feature::SlidingWindow as u8 }>(tag, SLIDING_WINDOW) {
            SlidingWindow::step_by(|| zerocopy::transmute!(parameters()), word, now, cost)
        } else if is_tag::<{ Feature::TokenBucket as u8 }>(tag, TOKEN_BUCKET) {
            let bucket: TokenBucket = zerocopy::transmute!(parameters());
            bucket.step(word, now, cost)
        } else if is_tag::<{ Feature::SlidingLog as u8 }>(tag, SLIDING_LOG) {
            Ok(word)
        } else {
            let window: FixedWindow = zerocopy::transmute!(parameters());
            window.step(word, now, cost)
        }
    }

    pub(crate) const fn into_parts(self) -> (u16, Parameters) {
        match self {
            Self::FixedWindow(window) => (FIXED_WINDOW, zerocopy::transmute!(window)),
            Self::SlidingWindow(window) => (SLIDING_WINDOW, zerocopy::transmute!(window)),
            Self::TokenBucket(bucket) => (TOKEN_BUCKET, zerocopy::transmute!(bucket)),
            Self::SlidingLog(log) => (SLIDING_LOG, zerocopy::transmute!(log)),
        }
    }
}
