//! The packet history.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{detection::Kind, limit::LimitSpec};

/// Selects a period of the packet history.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct HistoryRequest {
    /// Start of the period; one hour before the end by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// End of the period; now by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Seconds per data point; by default chosen for at most 720 points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

/// The packet history as series with one value per step.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct History {
    /// Start of the first step.
    pub from: Timestamp,
    /// End of the last step.
    pub to: Timestamp,
    /// Length of a step in seconds.
    pub step_seconds: u32,
    /// Seconds per step in which packets were counted; 0 if the daemon was not running.
    pub observed_seconds: Vec<u32>,
    /// Packets by verdict.
    pub verdicts: Vec<VerdictHistory>,
    /// Packets by configured policy.
    pub policies: Vec<PolicyHistory>,
    /// Remaining quota of the limits in `[history] watch`, from when they were added to the
    /// configuration.
    pub levels: Vec<LevelHistory>,
    /// Attacks in the period, oldest first.
    pub attacks: Vec<PastAttack>,
}

/// Packets with the same verdict over time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct VerdictHistory {
    /// The verdict: `pass`, `drop` or `observe`.
    pub action: String,
    /// Reason of the verdict, named as in the metrics.
    pub reason: String,
    /// Packets per step.
    pub packets: Vec<u64>,
    /// Bytes per step, with frame headers.
    pub bytes: Vec<u64>,
}

/// Packets judged by a policy over time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolicyHistory {
    /// Name of the policy.
    pub policy: String,
    /// Packets per step.
    pub packets: Vec<u64>,
    /// Bytes per step, with frame headers.
    pub bytes: Vec<u64>,
}

/// Remaining quota of a limit over time, read once per second.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LevelHistory {
    /// Owner of the limit as in `[history] watch`: `node`, an address or a prefix.
    pub watched: String,
    /// Definition of the limit.
    pub limit: LimitSpec,
    /// Smallest remaining quota per step, in packets or bytes; null if it was not read.
    pub left: Vec<Option<u64>>,
}

/// A past attack, or one in progress.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PastAttack {
    /// The kind of attack.
    pub kind: Kind,
    /// Target or origin of the attack: `to 10.10.10.10`, `from 192.0.2.0/24`.
    pub subject: String,
    /// When the attack was detected.
    pub since: Timestamp,
    /// When the attack was last seen.
    pub seen: Timestamp,
    /// Highest packet rate, per second.
    pub packets_per_second: u64,
    /// Highest number of sources per second, a lower bound.
    pub sources: u64,
}

/// The state of the packet history.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct HistoryStatus {
    /// Retention in seconds; unset if history is disabled.
    pub keep_seconds: Option<u64>,
    /// Size of the database in bytes.
    pub bytes: u64,
    /// When history was last written; unset if it was not since the daemon started.
    pub written: Option<Timestamp>,
    /// Number of failed writes since the daemon started.
    pub errors: u64,
}
