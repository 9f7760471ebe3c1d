//! The data of the dashboard.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Ban;

/// Selects additional data for a live stream.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct LiveRequest {
    /// An address whose [`Check`](super::Check) is sent every second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Search for bans: their text, a covered address, or an enclosing prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bans: Option<String>,
}

/// Bans found by a search.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FoundBans {
    /// The search text; empty if there was none.
    pub text: String,
    /// Number of matches.
    pub count: usize,
    /// The latest matches, newest first.
    pub bans: Vec<Ban>,
}

/// Whether a dashboard may change bans.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Yes: it is connected to the control socket.
    Command,
    /// Yes, with the token.
    Token,
    /// No, read-only.
    Read,
}
