//! What the windows of a limit held.

use hdrhistogram::Histogram;
use ratelimit_core::limit::{self, LimitSpec};

/// Two digits: a figure is at most 1 % too large (`HdrHistogram`, Gil Tene).
const DIGITS: u8 = 2;

/// The limit of a policy, by what its amounts mean.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Measured {
    /// The policy.
    pub policy: String,
    /// The limit without what it admits: that may change without making figures another thing.
    pub measure: String,
}

/// What windows held.
#[derive(Clone, Debug)]
pub struct Seen {
    /// How much.
    pub held: Histogram<u64>,
    /// How many of them were full.
    pub full: u64,
    /// The most sources in one scan of the tables.
    pub sources: u64,
}

impl Seen {
    /// Nothing.
    pub fn new() -> Self {
        Self {
            held: Histogram::new(DIGITS).expect("two digits are kept"),
            full: 0,
            sources: 0,
        }
    }

    /// Adds what was seen at another time.
    pub fn add(&mut self, other: &Self) {
        self.held.add(&other.held).expect("it grows");
        self.full += other.full;
        self.sources = self.sources.max(other.sources);
    }
}

impl Measured {
    /// What a limit of a policy measures.
    pub fn new(policy: &str, limit: &LimitSpec) -> Self {
        let mut measure = format!(
            "{:?} {} {}",
            limit.unit(),
            limit.window().as_nanos(),
            limit.algorithm().name().label()
        );
        // What is in use of a bucket depends on how fast it fills.
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
