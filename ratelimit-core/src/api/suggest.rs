//! Limits from what sources have sent.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PolicyView;
use crate::limit::LimitSpec;

/// Parameters of suggested limits.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SuggestRequest {
    /// Percentage of windows that the limit should admit.
    pub percentile: f64,
    /// Factor applied to the measured usage.
    pub headroom: f64,
    /// Age of the oldest samples in seconds, rounded to hours.
    pub since_seconds: f64,
}

/// Suggested limits and the traffic they are based on.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Suggested {
    /// Start of the first hour with samples.
    pub since: Timestamp,
    /// Percentage of windows that the limits should admit.
    pub percentile: f64,
    /// Factor applied to the measured usage.
    pub headroom: f64,
    /// Suggested limits, ordered by policy.
    pub limits: Vec<SuggestedLimit>,
    /// Policies of the limits.
    pub policies: Vec<PolicyView>,
}

/// A suggested limit. Amounts are in the unit of the limit; for token buckets they are the used
/// part of the burst.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SuggestedLimit {
    /// Policy of the limit.
    pub policy: String,
    /// The limit in force.
    pub limit: LimitSpec,
    /// Number of sampled windows with traffic from a source.
    pub windows: u64,
    /// Largest number of sources in a sample.
    pub sources: u64,
    /// Median usage of a window.
    pub median: u64,
    /// Usage at the requested percentile.
    pub at: u64,
    /// Largest usage of a window.
    pub most: u64,
    /// Number of windows that reached the limit.
    pub full: u64,
    /// Whether `at` is only a lower bound because too many windows reached the limit.
    pub at_least: bool,
    /// The suggested limit; unset if there are too few samples.
    pub proposed: Option<LimitSpec>,
}
