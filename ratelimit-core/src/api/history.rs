//! What packets came in the last days.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{detection::Kind, limit::LimitSpec};

/// Which time is asked for.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct HistoryRequest {
    /// From when on; an hour before the end unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Timestamp>,
    /// Until when; now unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// How many seconds a point sums up; what makes at most 720 points unless it is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u32>,
}

/// What packets came, a point for each step.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct History {
    /// The begin of the first point.
    pub from: Timestamp,
    /// The end of the last point.
    pub to: Timestamp,
    /// The seconds from one point to the next.
    pub step_seconds: u32,
    /// For how many of them packets were counted, by point. 0 is no answer: nobody looked.
    pub observed_seconds: Vec<u32>,
    /// What came of each verdict.
    pub verdicts: Vec<VerdictHistory>,
    /// What each policy of the configuration judged.
    pub policies: Vec<PolicyHistory>,
    /// What was left of the limits that `[history] watch` names, from when on they were named.
    pub levels: Vec<LevelHistory>,
    /// The attacks of the time, the first one first.
    pub attacks: Vec<PastAttack>,
}

/// What came of a verdict.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct VerdictHistory {
    /// `pass`, `drop` or `observe`.
    pub action: String,
    /// The reason, as in the metrics.
    pub reason: String,
    /// Packets, by point.
    pub packets: Vec<u64>,
    /// Bytes of their frames, by point.
    pub bytes: Vec<u64>,
}

/// What a policy judged.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolicyHistory {
    /// Its name.
    pub policy: String,
    /// Packets, by point.
    pub packets: Vec<u64>,
    /// Bytes of their frames, by point.
    pub bytes: Vec<u64>,
}

/// What was left of a limit. It is looked at once a second.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LevelHistory {
    /// Whose limit: `node`, an address or a prefix, as `[history] watch` has it.
    pub watched: String,
    /// The limit.
    pub limit: LimitSpec,
    /// The least that was left, in packets or bytes as the limit is, by point; `null` where nobody looked.
    pub left: Vec<Option<u64>>,
}

/// An attack, which may go on.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PastAttack {
    /// What it was.
    pub kind: Kind,
    /// What it went against, or where it came from: `to 10.10.10.10`, `from 192.0.2.0/24`.
    pub subject: String,
    /// Since when it was known.
    pub since: Timestamp,
    /// When it was seen last.
    pub seen: Timestamp,
    /// The most packets in a second.
    pub packets_per_second: u64,
    /// The most sources in a second, or more.
    pub sources: u64,
}

/// How the history of packets is kept.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct HistoryStatus {
    /// For how many seconds; `None` where nothing is kept.
    pub keep_seconds: Option<u64>,
    /// The size of its database.
    pub bytes: u64,
    /// When it was written last; `None` where it was not since the daemon started.
    pub written: Option<Timestamp>,
    /// How often it could not be written since the daemon started.
    pub errors: u64,
}
