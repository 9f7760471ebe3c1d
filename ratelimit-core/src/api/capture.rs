//! Which dropped packets somebody wants to have.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::prefix::Prefix;

/// Begins a capture; the answer is a pcapng file that grows until there are enough packets, the time is over, or
/// `DELETE /v1/capture` ends it. One runs at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureRequest {
    /// Of so many packets of an interface and CPU, one is captured.
    #[default = 1]
    pub every: u32,
    /// The bytes of a packet that are kept, at most 16,384.
    #[default(ratelimit_common::capture::SNAP_MAX)]
    pub snap: u32,
    /// How many packets are enough; `None` is never.
    pub count: Option<u64>,
    /// For how many seconds; `None` is until somebody ends it.
    pub seconds: Option<f64>,
    /// The reasons, as in the metrics; none are all.
    pub reasons: Vec<String>,
    /// The sources; `None` is all.
    pub source: Option<Prefix>,
}

impl fmt::Display for CaptureRequest {
    /// `1 of 100 dropped packets of 203.0.113.0/24 (limited, banned)`
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.every {
            1 => formatter.write_str("all dropped packets")?,
            every => write!(formatter, "1 of {every} dropped packets")?,
        }
        if let Some(source) = self.source {
            write!(formatter, " of {source}")?;
        }
        match self.reasons.as_slice() {
            [] => Ok(()),
            reasons => write!(formatter, " ({})", reasons.join(", ")),
        }
    }
}
