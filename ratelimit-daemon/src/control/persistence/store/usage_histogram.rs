//! Histograms of the usage of a limit's windows.

use hdrhistogram::Histogram;
use ratelimit_core::limit::{self, LimitSpec};

/// Two digits: a value is at most 1 % too large (`HdrHistogram`, Gil Tene).
const DIGITS: u8 = 2;

/// A limit of a policy, identified by what its amounts measure.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Measured {
    pub policy: String,
    /// The limit without its amount, which may change without affecting the meaning of the values.
    pub measure: String,
}

/// The recorded windows of a limit.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Their usage.
    pub held: Histogram<u64>,
    /// The number of full windows.
    pub full: u64,
    /// The most sources in one scan of the tables.
    pub sources: u64,
}

impl Seen {
    pub fn new() -> Self {
        Self {
            held: Histogram::new(DIGITS).expect("two digits are kept"),
            full: 0,
            sources: 0,
        }
    }

    /// Adds the records of another time.
    pub fn add(&mut self, other: &Self) {
        self.held.add(&other.held).expect("it grows");
        self.full += other.full;
        self.sources = self.sources.max(other.sources);
    }
}

impl Measured {
    /// Identifies a limit of a policy.
    pub fn new(policy: &str, limit: &LimitSpec) -> Self {
        let mut measure = format!(
            "{:?} {} {}",
            limit.unit(),
            limit.window().as_nanos(),
            limit.algorithm().name().label()
        );
        // The usage of a bucket depends on its rate.
        if let limit::Algorithm::TokenBucket { .. } = limit.algorithm() {
            measure = format!("{measure} {}", limit.amount());
        }
        if let Some(class) = limit.class() {
            measure = format!("{measure} of {class}");
        }
        Self {
            policy: policy.to_owned(),
            measure,
        }
    }
}
