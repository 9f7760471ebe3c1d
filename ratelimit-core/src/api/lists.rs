//! Import, export and state of lists.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EntryCounter;
use crate::{
    lists::{Action, Connected, Coverage},
    prefix::Prefix,
};

/// Destination of imported entries.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportInto {
    /// The origin given in each line; bans if a line has none.
    #[default]
    Origins,
    /// Manual bans for all entries.
    Bans,
    /// Runtime allows for all entries.
    Allows,
    /// A named list, which the entries replace.
    List,
}

/// Imports the list in the request body; its format is recognized.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct ImportRequest {
    /// Destination of the entries.
    #[serde(default)]
    pub into: ImportInto,
    /// Name of the list to replace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Whether the list bans or allows its entries.
    #[serde(default)]
    pub action: Action,
    /// Duration in seconds for entries without an expiry; unset is forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Reason for entries without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Name of the body in messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Reports the changes without making them.
    #[serde(default)]
    pub dry_run: bool,
    /// Skips lines that cannot be read.
    #[serde(default)]
    pub skip_bad: bool,
    /// Accepts very wide prefixes.
    #[serde(default)]
    pub force: bool,
    /// Accepts a list without entries.
    #[serde(default)]
    pub allow_empty: bool,
    /// Accepts a list that covers more than 1/64 of the address space, or ten times as much as
    /// before.
    #[serde(default)]
    pub allow_wide: bool,
    /// Skips entries with a smaller number after the address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u64>,
    /// JSON key of the addresses; by default found by common names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
    /// How to treat entries that cover a connected network. Without it the whole list is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<Connected>,
}

/// Progress of the running import.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Progress {
    /// Number of processed entries.
    pub done: u64,
    /// Total number of entries; 0 if no import is running.
    pub total: u64,
}

/// The result of an import, or of its dry run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Imported {
    /// Whether this was a dry run.
    pub dry_run: bool,
    /// Recognized format of the body.
    pub format: String,
    /// Choices made where the body was ambiguous, such as the column or the key.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Part of the address space that the entries cover.
    #[serde(default)]
    pub coverage: Coverage,
    /// Changes by destination.
    pub targets: Vec<ImportedInto>,
    /// Number of duplicate entries.
    pub duplicates: usize,
    /// Number of list entries inside a wider one with the same expiry.
    pub covered: usize,
    /// Number of skipped entries, by cause.
    pub skipped: BTreeMap<String, usize>,
    /// Banning entries that exempt protected addresses.
    #[serde(default)]
    #[serde(rename = "spared")]
    pub exempt: ExemptEntries,
    /// Number of banning entries without effect because they are allowed.
    #[serde(default)]
    pub allowed: usize,
    /// Number of skipped lines that cannot be read.
    pub bad: usize,
    /// Errors of the first bad lines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_lines: Option<String>,
}

/// Number of exempt entries that are reported individually.
pub const EXEMPT_REPORTED: usize = 5;

/// Banning entries that do not apply to protected addresses.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ExemptEntries {
    /// Number of entries.
    pub count: usize,
    /// The first entries.
    pub first: Vec<ExemptEntry>,
}

impl ExemptEntries {
    /// Adds other entries and keeps the first [`EXEMPT_REPORTED`].
    pub fn add(&mut self, others: Self) {
        self.count += others.count;
        self.first.extend(others.first);
        self.first.truncate(EXEMPT_REPORTED);
    }
}

/// A banning entry with an exempt part.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ExemptEntry {
    /// Prefix of the entry.
    pub prefix: Prefix,
    /// The exempt prefix: inside the entry or around it.
    pub protected: Prefix,
    /// The reason the prefix is protected.
    pub why: String,
}

/// Changes of an import to bans, allows or a list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImportedInto {
    /// Destination: `bans`, `allows` or `list:NAME`.
    pub into: String,
    /// Number of new entries.
    pub added: usize,
    /// Number of removed entries.
    pub removed: usize,
    /// Number of entries with a new expiry or reason.
    pub updated: usize,
    /// Number of unchanged entries.
    pub kept: usize,
    /// Number of existing bans kept because they last longer.
    #[serde(default)]
    pub longer: usize,
}

/// A list and its state.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ListView {
    /// Name of the list.
    pub name: Arc<str>,
    /// Whether the list bans or allows its entries, or selects them for a policy.
    pub action: Action,
    /// Number of entries.
    pub entries: usize,
    /// File of the list; unset if it was imported.
    pub file: Option<String>,
    /// Seconds between reads of the file; unset reads it at startup and on reload.
    pub every_seconds: Option<f64>,
    /// When the entries last changed; unset if the file was never read.
    pub since: Option<Timestamp>,
    /// When the file was last loaded; unset if it was not since the daemon started.
    pub read: Option<Timestamp>,
    /// When the file was last downloaded or found unchanged on its server; unset without `url`.
    #[serde(default)]
    pub fetched: Option<Timestamp>,
    /// Number of failed loads since the daemon started.
    pub errors: u64,
    /// The error of the last load; unset if it succeeded.
    pub error: Option<String>,
    /// Banning entries that exempt protected addresses.
    #[serde(default)]
    #[serde(rename = "spared")]
    pub exempt: ExemptEntries,
    /// Number of those that exempt a connected network without a `connected` key that confirms it.
    #[serde(default)]
    pub connected_unsaid: usize,
    /// Packets that matched an entry of the list.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// Selects a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListTarget {
    /// Name of the list.
    pub name: String,
}

/// An entry of a list that covers an address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Listed {
    /// Name of the list.
    pub list: Arc<str>,
    /// Whether the list bans or allows the address, or selects it for a policy.
    pub action: Action,
    /// Prefix of the entry.
    pub prefix: Prefix,
    /// When the entry expires; unset if it lasts as long as the list contains it.
    pub until: Option<Timestamp>,
    /// Reason given in the list.
    pub reason: Option<String>,
}

/// Exports entries as lines of text.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
    /// Entries to export.
    #[serde(default)]
    pub what: Exported,
    /// Name of the list to export.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// Format of the lines.
    #[serde(default)]
    pub format: ExportFormat,
}

/// Entries to export.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exported {
    /// Bans, allows and imported lists: everything that is not from files.
    #[default]
    Kept,
    /// Bans from commands and programs.
    Bans,
    /// The allow list, without entries of the configuration.
    Allows,
    /// The list given by `list`.
    List,
    /// Bans, allows and all lists.
    All,
}

/// Format of exported lines.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// JSON lines with all fields
    #[default]
    Json,
    /// One prefix per line, with its reason after #
    Plain,
}
