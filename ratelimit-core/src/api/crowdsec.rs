//! The connection to the local API of `CrowdSec`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the connection is, and what came of it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CrowdsecStatus {
    /// Where the API is: its address, or the path of its socket.
    pub url: String,
    /// Whether it answers; `None` before it was first asked.
    pub connected: Option<bool>,
    /// Since when that is so.
    pub since: Timestamp,
    /// When it last answered.
    pub pulled: Option<Timestamp>,
    /// Why it did not answer, or why what it decided could not be put in force.
    pub error: Option<String>,
    /// Bans of its decisions that are in force.
    pub bans: usize,
    /// Decisions that it holds up, several of which may ban the same prefix.
    pub decisions: usize,
    /// How often it answered.
    pub pulls: u64,
    /// How often it did not.
    pub failures: u64,
    /// Decisions that were reported and ban nobody, by the reason.
    pub ignored: BTreeMap<String, u64>,
}
