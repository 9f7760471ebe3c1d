//! What keeps people from locking themselves out: protected addresses, configurations on trial, `pass-all`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prefix::Prefix;

/// The header in which `rlctl` says from where the SSH session comes that it was typed in: an address.
pub const SSH_PEER: &str = "ratelimit-ssh-peer";

/// The header in which `rlctl` says on behalf of whom it asks by `sudo`: a name. It is a claim, told beside the user of the process.
pub const SUDO_USER: &str = "ratelimit-sudo-user";

/// The header of every answer while everything passes: [`PassAllStatus`] as JSON.
pub const PASS_ALL: &str = "ratelimit-pass-all";

/// The header of every answer while `pass-all`, a trial or changes are not written down as they stand, so that a restart may undo it. It says why, as
/// a list in JSON.
pub const UNKEPT: &str = "ratelimit-unkept";

/// The largest configuration that can be applied, in bytes of JSON.
pub const APPLY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A protected prefix, nearly always an address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ProtectedView {
    /// Which.
    pub prefix: Prefix,
    /// Why, one reason at least.
    pub reasons: Vec<String>,
    /// Whether a ban of something else covers it, and stops at it.
    #[serde(rename = "spared")]
    pub exempt: bool,
}

/// Puts a configuration on trial.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Where the text comes from, for messages.
    pub file: String,
    /// The text that stands in for the daemon's `config.toml`.
    pub text: String,
    /// How long it is tried.
    pub seconds: f64,
}

/// A configuration is on trial.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Applied {
    /// What is different, a line each; empty when nothing is.
    pub changes: Vec<String>,
    /// Until when it is tried.
    pub attempt: Attempt,
}

/// The last configuration that was tried.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Attempt {
    /// Where its text came from.
    pub file: String,
    /// The file that the daemon reads when it starts, and for `rlctl reload`.
    pub main: String,
    /// Whether `main`, as it is now, holds what was tried.
    pub installed: bool,
    /// What became of it.
    #[serde(flatten)]
    pub outcome: Outcome,
}

/// What became of a configuration on trial.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Outcome {
    /// It is in force, and nobody has confirmed it.
    Pending {
        /// When the one before comes back.
        until: Timestamp,
    },
    /// The one before came back.
    RolledBack {
        /// When.
        at: Timestamp,
    },
    /// It is kept.
    Confirmed {
        /// Since when.
        at: Timestamp,
    },
}

/// Lets everything pass, or ends that.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PassAllRequest {
    /// Which of them.
    pub on: bool,
    /// For how many seconds; `None` is until it is ended.
    pub seconds: Option<f64>,
}

/// Everything passes.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PassAllStatus {
    /// Since when.
    pub since: Timestamp,
    /// Until when; `None` is until somebody ends it.
    pub until: Option<Timestamp>,
    /// Who wanted it.
    pub author: String,
}
