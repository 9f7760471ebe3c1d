//! The allow list.

use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EntryCounter;
use crate::{origin::Origin, prefix::Prefix};

/// Adds all given prefixes to the allow list, or none of them if one is refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AllowRequest {
    /// Prefixes to allow.
    pub prefixes: Vec<Prefix>,
    /// Duration in seconds; unset is forever.
    pub seconds: Option<f64>,
    /// Free text shown with the entry.
    pub reason: Option<String>,
    /// Permits prefixes wider than a /8 (IPv4) or a /16 (IPv6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// A prefix that is on the allow list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Allowed {
    /// The prefix of the request.
    pub prefix: Prefix,
    /// The entry of the allow list that covers it.
    pub by: Prefix,
}

/// An entry of the allow list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Allow {
    /// The allowed prefix.
    pub prefix: Prefix,
    /// When the entry expires; unset if it is permanent.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// When the entry was added; unset if it is from the configuration.
    pub since: Option<Timestamp>,
    /// Free text given with the entry.
    pub reason: Option<Arc<str>>,
    /// The user who added the entry.
    #[serde(rename = "by")]
    pub author: Option<Arc<str>>,
    /// Origin of the entry: command, configuration, list or cluster node.
    pub origin: Origin,
    /// Packets passed by the entry. If several entries cover a prefix, the one that expires last
    /// counts them.
    #[serde(flatten)]
    pub counter: EntryCounter,
}
