//! The connection to the local API of `CrowdSec`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The connection to the `CrowdSec` local API, and its decisions.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct CrowdsecStatus {
    /// Address of the API: a URL or the path of a socket.
    pub url: String,
    /// Whether the API answers; unset before the first request.
    pub connected: Option<bool>,
    /// When the connection state last changed.
    pub since: Timestamp,
    /// When the API last answered.
    pub pulled: Option<Timestamp>,
    /// The error of the last request, or the reason decisions are not in force.
    pub error: Option<String>,
    /// Number of bans in force from decisions.
    pub bans: usize,
    /// Number of active decisions; several may ban the same prefix.
    pub decisions: usize,
    /// Number of successful requests.
    pub pulls: u64,
    /// Number of failed requests.
    pub failures: u64,
    /// Number of decisions that are ignored, by reason.
    pub ignored: BTreeMap<String, u64>,
}
