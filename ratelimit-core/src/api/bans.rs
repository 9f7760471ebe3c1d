//! Bans: requests, and what is in force.

use std::{net::IpAddr, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EntryCounter;
use crate::{origin::Origin, prefix::Prefix};

/// Bans all given prefixes, or none of them if one is refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BanRequest {
    /// Prefixes to ban.
    pub prefixes: Vec<Prefix>,
    /// Addresses whose source prefix is banned: the address itself for IPv4, usually the /64 for
    /// IPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// Duration in seconds; unset uses `[ban] for` of the configuration, unless `forever` is set.
    pub seconds: Option<f64>,
    /// Makes the ban permanent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forever: bool,
    /// Free text shown with the ban.
    pub reason: Option<String>,
    /// Also bans protected addresses and very wide prefixes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Removes the bans of the given prefixes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnbanRequest {
    /// Prefixes to unban.
    pub prefixes: Vec<Prefix>,
    /// Addresses to unban, together with their source prefix (usually the /64 for IPv6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
}

/// An existing ban that expires later than the requested one.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LongerBan {
    /// The banned prefix.
    pub prefix: Prefix,
    /// When the existing ban expires; unset if it is permanent.
    pub until: Option<Timestamp>,
    /// Whether the existing ban was kept because the request named no duration.
    pub kept: bool,
}

/// A ban that still covers an unbanned prefix.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RemainingBan {
    /// The prefix that was unbanned.
    pub prefix: Prefix,
    /// The prefix of the remaining ban: the same or a wider one.
    pub banned: Prefix,
    /// Origin of the remaining ban.
    pub origin: Origin,
}

/// A ban by folding that was lifted.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Unfolded {
    /// The folded prefix.
    pub prefix: Prefix,
    /// Number of bans inside it, which stay in force.
    pub bans: usize,
}

/// A ban in force.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Ban {
    /// The banned prefix.
    pub prefix: Prefix,
    /// When the ban expires; unset if it is permanent.
    pub until: Option<Timestamp>,
    /// When the ban was set.
    pub since: Timestamp,
    /// Free text given with the ban.
    pub reason: Option<Arc<str>>,
    /// The user or program that set the ban.
    #[serde(rename = "by")]
    pub author: Arc<str>,
    /// Origin of the ban: command, program, list, policy, folding or cluster node.
    pub origin: Origin,
    /// Number of bans inside a folded prefix; unset for other bans.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folded: Option<usize>,
    /// Packets dropped by the ban. If several bans cover a prefix, the one that expires last counts
    /// them.
    #[serde(flatten)]
    pub counter: EntryCounter,
}
