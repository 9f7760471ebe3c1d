//! Bans by other programs.

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prefix::Prefix;

/// Bans every prefix of a list in the name of a program, or none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramBanRequest {
    /// Who asks: `fail2ban/sshd`.
    pub program: String,
    /// The prefixes.
    pub prefixes: Vec<Prefix>,
    /// Addresses whose sources are banned: of IPv6 usually the /64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// For how many seconds; `None` is as long as `[ban] for` of the configuration says, unless it is `forever`.
    pub seconds: Option<f64>,
    /// Whether the ban has no end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forever: bool,
    /// Why.
    pub reason: Option<String>,
}

/// Ends the bans that a program has of the prefixes of a list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramUnbanRequest {
    /// Who asks.
    pub program: String,
    /// The prefixes.
    pub prefixes: Vec<Prefix>,
    /// Addresses whose own bans end, and those of the sources that they belong to: of IPv6 usually the /64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
}
