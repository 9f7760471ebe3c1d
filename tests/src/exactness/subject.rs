//! The measured algorithms, each with its definition. A new one is one entry here.

use std::time::Duration;

use ratelimit_common::{
    Limit, Unit,
    algorithm::{self, Algorithm},
};

use super::{
    bracketed::{self, Bracket},
    explanation::{Findings, Observation, explain},
    oracle::{self, Oracle},
    promise::{Exactly, Filling, Promise, Weighted},
};

/// An algorithm, with what it is measured by. The amount and the length of the window in
/// nanoseconds are arguments.
pub struct Subject {
    /// The name in the configuration.
    pub name: &'static str,
    /// The length of the window.
    pub window_ns: u64,
    /// Packets a window in virtual time on one CPU, and on two: there as many as make a race of
    /// every step.
    pub amount: u64,
    /// See there. A step is of whole ticks.
    pub amount_of_two: u64,
    /// Whether the answers of the oracle are promised, or a bound.
    pub is_exact: bool,
    algorithm: fn(u64, Duration) -> Algorithm,
    /// The oracle whose packets are counted in the table.
    pub oracle: fn(u64, u64) -> Box<dyn Oracle>,
    /// The promise for packets at known times.
    pub promise: fn(u64, u64) -> Box<dyn Promise>,
    /// Explains packets at times that are known to lie between two others.
    pub explain: fn(u64, u64, &[Vec<Observation>; 2]) -> Findings,
}

/// A round number that is no power of two.
const WINDOW_NS: u64 = 20_000_000;
/// The sliding window rounds all but powers of two, and its bound is about windows that are not
/// rounded.
const SLIDING_WINDOW_NS: u64 = 1 << 24;

/// Primes, so that the time of a token is no whole number.
const AMOUNT: u64 = 1_999;
const AMOUNT_OF_TWO: u64 = 19_997;
/// A log keeps a thousand packets at most.
const AMOUNT_OF_LOG: u64 = 997;

/// The algorithms.
pub const SUBJECTS: [Subject; 4] = [
    Subject {
        name: "fixed-window",
        window_ns: WINDOW_NS,
        amount: AMOUNT,
        amount_of_two: AMOUNT_OF_TWO,
        is_exact: true,
        algorithm: |amount, window| {
            algorithm::FixedWindow::new(amount, window)
                .expect(FITS)
                .into()
        },
        oracle: |amount, window_ns| Box::new(oracle::FixedWindow::new(amount, window_ns)),
        promise: |amount, window_ns| Box::new(Exactly(oracle::FixedWindow::new(amount, window_ns))),
        explain: |amount, window_ns, by_cpu| {
            explain(&bracketed::FixedWindow::new(amount, window_ns), by_cpu)
        },
    },
    Subject {
        name: "sliding-window",
        window_ns: SLIDING_WINDOW_NS,
        amount: AMOUNT,
        amount_of_two: AMOUNT_OF_TWO,
        is_exact: false,
        algorithm: |amount, window| {
            algorithm::SlidingWindow::new(amount, window)
                .expect(FITS)
                .into()
        },
        oracle: |amount, window_ns| Box::new(oracle::SlidingLog::new(amount, window_ns)),
        promise: |amount, window_ns| Box::new(Weighted::new(amount, window_ns)),
        explain: |amount, window_ns, by_cpu| {
            explain(&bracketed::SlidingWindow::new(amount, window_ns), by_cpu)
        },
    },
    Subject {
        name: "token-bucket",
        window_ns: WINDOW_NS,
        amount: AMOUNT,
        amount_of_two: AMOUNT_OF_TWO,
        is_exact: false,
        algorithm: |amount, window| {
            algorithm::TokenBucket::new(amount, window, amount)
                .expect(FITS)
                .into()
        },
        oracle: |amount, window_ns| Box::new(oracle::TokenBucket::new(amount, window_ns, amount)),
        promise: |amount, window_ns| Box::new(Filling::new(amount, window_ns, amount)),
        explain: |amount, window_ns, by_cpu| {
            explain(
                &bracketed::TokenBucket::new(amount, window_ns, amount).rounded(),
                by_cpu,
            )
        },
    },
    Subject {
        name: "sliding-log",
        window_ns: WINDOW_NS,
        amount: AMOUNT_OF_LOG,
        amount_of_two: AMOUNT_OF_LOG,
        is_exact: true,
        algorithm: |amount, window| {
            algorithm::SlidingLog::new(amount, window)
                .expect(FITS)
                .into()
        },
        oracle: |amount, window_ns| Box::new(oracle::SlidingLog::new(amount, window_ns)),
        promise: |amount, window_ns| Box::new(Exactly(oracle::SlidingLog::new(amount, window_ns))),
        explain: |amount, window_ns, by_cpu| {
            explain(
                &bracketed::SlidingLog::new(amount, window_ns),
                &not_before_the_newest(by_cpu),
            )
        },
    },
];

const FITS: &str = "the amount and the window were chosen so";

/// A log judges a packet at the time of the newest in it, if that is later: one of the other CPU,
/// before this one was finished.
fn not_before_the_newest(by_cpu: &[Vec<Observation>; 2]) -> [Vec<Observation>; 2] {
    let [left, right] = by_cpu;
    let is_alone = left.is_empty() || right.is_empty();
    let latest = |packet: &Observation| Observation {
        at: Bracket {
            latest_ns: packet.under_way.latest_ns,
            ..packet.at
        },
        ..*packet
    };
    let extended = |packets: &[Observation]| packets.iter().map(latest).collect();
    if is_alone {
        by_cpu.clone()
    } else {
        [extended(left), extended(right)]
    }
}

impl Subject {
    /// A limit of `amount` packets a window.
    pub fn limit(&self, amount: u64) -> Limit {
        let window = Duration::from_nanos(self.window_ns);
        Limit::new((self.algorithm)(amount, window), Unit::Packets)
    }
}
