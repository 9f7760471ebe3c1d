//! Protection against lockout: protected addresses, configurations on trial, `pass-all`.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prefix::Prefix;

/// Header with the remote address of the SSH session that `rlctl` runs in.
pub const SSH_PEER: &str = "ratelimit-ssh-peer";

/// Header with the user that runs `rlctl` with `sudo`. It is unauthenticated and reported in
/// addition to the user of the process.
pub const SUDO_USER: &str = "ratelimit-sudo-user";

/// Header of every response while `pass-all` is on: [`PassAllStatus`] as JSON.
pub const PASS_ALL: &str = "ratelimit-pass-all";

/// Header of every response while `pass-all`, a trial or changes could not be saved, so that a
/// restart may undo them: the causes as a JSON list.
pub const UNKEPT: &str = "ratelimit-unkept";

/// Maximum size of an applied configuration, in bytes of JSON.
pub const APPLY_BYTES_MAX: usize = 8 * 1024 * 1024;

/// A protected prefix, usually a single address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ProtectedView {
    /// The protected prefix.
    pub prefix: Prefix,
    /// The reasons it is protected; at least one.
    pub reasons: Vec<String>,
    /// Whether a wider ban covers the prefix and does not apply to it.
    #[serde(rename = "spared")]
    pub exempt: bool,
}

/// Puts a configuration on trial.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ApplyRequest {
    /// Name of the file, for messages.
    pub file: String,
    /// Text of the configuration that replaces `config.toml`.
    pub text: String,
    /// Duration of the trial in seconds.
    pub seconds: f64,
}

/// The started trial.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Applied {
    /// Changed settings, one per line; empty if nothing changed.
    pub changes: Vec<String>,
    /// State of the trial.
    pub attempt: Attempt,
}

/// The last trial of a configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Attempt {
    /// File that the configuration was read from.
    pub file: String,
    /// File that the daemon reads at startup and on reload.
    pub main: String,
    /// Whether `main` contains the configuration on trial.
    pub installed: bool,
    /// State or result of the trial.
    #[serde(flatten)]
    pub outcome: TrialOutcome,
}

/// State or result of a trial.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum TrialOutcome {
    /// In force and not confirmed yet.
    Pending {
        /// When the previous configuration is restored.
        until: Timestamp,
    },
    /// The previous configuration was restored.
    RolledBack {
        /// When it was restored.
        at: Timestamp,
    },
    /// Confirmed and kept.
    Confirmed {
        /// When it was confirmed.
        at: Timestamp,
    },
}

/// Turns `pass-all` on or off.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PassAllRequest {
    /// `true` passes all packets, `false` enforces limits and bans again.
    pub on: bool,
    /// Duration in seconds; unset lasts until it is turned off.
    pub seconds: Option<f64>,
}

/// State of `pass-all`.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PassAllStatus {
    /// When it was turned on.
    pub since: Timestamp,
    /// When it ends; unset if it lasts until it is turned off.
    pub until: Option<Timestamp>,
    /// The user who turned it on.
    #[serde(rename = "by")]
    pub author: String,
}
