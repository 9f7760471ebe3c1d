//! Bans by other programs.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prefix::Prefix;

/// Bans all given prefixes on behalf of a program, or none of them if one is refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramBanRequest {
    /// Name of the program, such as `fail2ban/sshd`.
    pub program: String,
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
}

/// Removes bans that a program set.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramUnbanRequest {
    /// Name of the program.
    pub program: String,
    /// Prefixes to unban.
    pub prefixes: Vec<Prefix>,
    /// Addresses to unban, together with their source prefix (usually the /64 for IPv6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
}
