//! Limits from what sources have sent.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::PolicyView;
use crate::limit::LimitSpec;

/// Which figure is wanted.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SuggestRequest {
    /// The part of all windows that is to fit, in percent.
    pub percentile: f64,
    /// How many times as much is proposed.
    pub headroom: f64,
    /// From how many seconds ago on, to the hour.
    pub since_seconds: f64,
}

/// What is proposed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Suggested {
    /// The beginning of the first hour in which something was seen.
    pub since: Timestamp,
    /// The part of all windows, in percent.
    pub percentile: f64,
    /// How many times as much is proposed.
    pub headroom: f64,
    /// The limits, in the order of their policies.
    pub limits: Vec<SuggestedLimit>,
    /// Their policies.
    pub policies: Vec<PolicyView>,
}

/// What is proposed for one limit. Amounts are in its unit, of a token bucket what was in use of the burst.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SuggestedLimit {
    /// Its policy.
    pub policy: String,
    /// As it is.
    pub limit: LimitSpec,
    /// The windows that were looked at, in which a source had sent something.
    pub windows: u64,
    /// The most sources at one look.
    pub sources: u64,
    /// What half of them held at most.
    pub median: u64,
    /// What the asked part held at most.
    pub at: u64,
    /// The most.
    pub most: u64,
    /// How many of them were full.
    pub full: u64,
    /// Whether too many were full to say more than that it is at least the limit.
    pub at_least: bool,
    /// The limit that is proposed; `None` where too little was seen.
    pub proposed: Option<LimitSpec>,
}
