//! What a dashboard shows.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Ban;

/// What is followed beside what every dashboard shows.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct LiveRequest {
    /// An address whose [`Check`](super::Check) comes each second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// Which bans come: those that have this text, cover this address, or are within this prefix.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bans: Option<String>,
}

/// The bans of which some are shown.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FoundBans {
    /// What was looked for; empty where nothing was.
    pub text: String,
    /// How many were found.
    pub count: usize,
    /// The last ones of them, the last one first.
    pub bans: Vec<Ban>,
}

/// Whether a dashboard may change bans.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// It may: it comes through the control socket.
    Command,
    /// It may, where it shows the token.
    Token,
    /// It looks only.
    Read,
}
