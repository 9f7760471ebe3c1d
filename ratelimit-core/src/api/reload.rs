//! Replacing the configuration.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ApplyRequest;

/// The result of a reload.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Reloaded {
    /// Files that were read.
    pub files: Vec<String>,
    /// Changed settings, one per line; empty if nothing changed.
    pub changes: Vec<String>,
    /// Warnings about routed or bridged traffic, and about limits that slow TCP down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Reads the configuration files again.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReloadRequest {
    /// Discards a confirmed configuration that was never written to a file.
    pub discard: bool,
    /// Accepts policies that drop every packet of addresses that this host needs.
    pub force: bool,
}

/// Selects the configuration to compare with the running one.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiffRequest {
    /// The configuration to compare; unset compares the files that a reload would read.
    pub tried: Option<ApplyRequest>,
}

/// The result of a detach.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Detached {
    /// Interfaces that are no longer protected.
    pub interfaces: Vec<String>,
}
