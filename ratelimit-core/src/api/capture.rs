//! Filters of captured drops.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use crate::prefix::Prefix;

/// Starts a capture. The response is a pcapng stream that ends when the packet count or the
/// duration is reached, or with `DELETE /v1/capture`. Only one capture runs at a time.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize, SmartDefault)]
#[serde(deny_unknown_fields, default)]
pub struct CaptureRequest {
    /// Captures one of this number of packets, per interface and CPU.
    #[default = 1]
    pub every: u32,
    /// Bytes kept of each packet, up to 16,384.
    #[default(ratelimit_common::capture::SNAP_MAX)]
    pub snap: u32,
    /// Number of packets after which the capture ends; unset is unlimited.
    pub count: Option<u64>,
    /// Duration in seconds; unset runs until the capture is ended.
    pub seconds: Option<f64>,
    /// Drop reasons to capture, named as in the metrics; empty is all.
    pub reasons: Vec<String>,
    /// Sources to capture; unset is all.
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
