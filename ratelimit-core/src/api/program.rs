//! Bans by other programs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prefix::Prefix;

/// Bans every prefix of a list in the name of a program, or none.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramBanRequest {
    /// Who asks: `fail2ban/sshd`.
    pub program: String,
    /// Whom.
    pub prefixes: Vec<Prefix>,
    /// For how many seconds; `None` is forever.
    pub seconds: Option<f64>,
    /// Why.
    pub reason: Option<String>,
}

/// Ends the bans that a program has of the prefixes of a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramUnbanRequest {
    /// Who asks.
    pub program: String,
    /// Whose.
    pub prefixes: Vec<Prefix>,
}
