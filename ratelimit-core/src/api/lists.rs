//! Lists: what is imported, exported and reported about them.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EntryCounter;
use crate::{
    lists::{Action, Connected, Coverage},
    prefix::Prefix,
};

/// Where the entries of an import go.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportInto {
    /// Each where its line says that it comes from; bans, where it says nothing.
    #[default]
    Origins,
    /// All are manual bans.
    Bans,
    /// All are runtime allows.
    Allows,
    /// All are the list with a name, in place of what it had.
    List,
}

/// The query of an import. Its body is a list in any of the formats.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub struct ImportRequest {
    /// Where the entries go.
    #[serde(default)]
    pub into: ImportInto,
    /// The name of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// What is done with the sources on the list.
    #[serde(default)]
    pub action: Action,
    /// For how many seconds entries hold that say no end of their own; `None` is forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Why entries are there that say no reason of their own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What the body is called in messages.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Whether only to tell what would be different.
    #[serde(default)]
    pub dry_run: bool,
    /// Whether bad lines are left out.
    #[serde(default)]
    pub skip_bad: bool,
    /// Whether very wide prefixes are taken.
    #[serde(default)]
    pub force: bool,
    /// Whether a list without entries is taken for no entries.
    #[serde(default)]
    pub allow_empty: bool,
    /// Whether it may cover more than 1/64 of an address space, or ten times as much as before.
    #[serde(default)]
    pub allow_wide: bool,
    /// Entries with a smaller number behind the address are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_count: Option<u64>,
    /// The key of JSON under which the addresses are; without it they are found by what keys are called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub json_path: Option<String>,
    /// What entries are to connected networks of the host that they cover. Without it such an entry refuses the whole list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connected: Option<Connected>,
}

/// How far an import is that was read and is going into the kernel and the database.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Progress {
    /// What is done of it.
    pub done: u64,
    /// How much there is to do; nothing, when there is no such import.
    pub total: u64,
}

/// What an import did, or would do.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Imported {
    /// Whether nothing was done.
    pub dry_run: bool,
    /// The format of the body.
    pub format: String,
    /// What was chosen of a body that could be read in another way: which column, which key.
    #[serde(default)]
    pub notes: Vec<String>,
    /// How much of the address space the entries cover.
    #[serde(default)]
    pub coverage: Coverage,
    /// What is different, by where the entries went.
    pub targets: Vec<ImportedInto>,
    /// Entries that stood twice.
    pub duplicates: usize,
    /// Entries of lists that lay in a wider one that holds as long.
    pub covered: usize,
    /// Entries that were left out for good reason, by that reason.
    pub skipped: BTreeMap<String, usize>,
    /// Entries that ban, and stop at what this host needs.
    #[serde(default)]
    #[serde(rename = "spared")]
    pub exempt: ExemptEntries,
    /// Entries that ban, and have no effect, as they are allowed.
    #[serde(default)]
    pub allowed: usize,
    /// Lines that were left out because they are wrong.
    pub bad: usize,
    /// What is wrong with the first of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_lines: Option<String>,
}

/// Entries that stop at what is protected and are reported by name.
pub const EXEMPT_REPORTED: usize = 5;

/// Entries that ban, and do not hold for what is protected.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ExemptEntries {
    /// How many.
    pub count: usize,
    /// The first of them.
    pub first: Vec<ExemptEntry>,
}

impl ExemptEntries {
    /// Adds others, of which those that have room are named.
    pub fn add(&mut self, others: Self) {
        self.count += others.count;
        self.first.extend(others.first);
        self.first.truncate(EXEMPT_REPORTED);
    }
}

/// One of them.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ExemptEntry {
    /// What it bans.
    pub prefix: Prefix,
    /// Where the ban stops: something in the prefix, or around it.
    pub protected: Prefix,
    /// Why that is protected.
    pub why: String,
}

/// What an import did to bans, allows or a list.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ImportedInto {
    /// `bans`, `allows` or `list:NAME`.
    pub into: String,
    /// Entries that were not there.
    pub added: usize,
    /// Entries that are gone.
    pub removed: usize,
    /// Entries with another end or reason.
    pub updated: usize,
    /// Entries that are as they were.
    pub kept: usize,
    /// Bans that are as they were, as they hold longer.
    #[serde(default)]
    pub longer: usize,
}

/// A list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ListView {
    /// Its name.
    pub name: Arc<str>,
    /// What is done with the sources on it.
    pub action: Action,
    /// How many entries it has.
    pub entries: usize,
    /// The file that it is read from; `None` for one that was imported.
    pub file: Option<String>,
    /// How often its file is read; `None` is at start and on reload only.
    pub every_seconds: Option<f64>,
    /// Since when it is as it is; `None` where it was never read.
    pub since: Option<Timestamp>,
    /// When its file was last read and taken; `None` where it was not since the daemon started.
    pub read: Option<Timestamp>,
    /// When that file was last downloaded, or its server had nothing newer; `None` where it has no `url`, or was not read.
    #[serde(default)]
    pub fetched: Option<Timestamp>,
    /// How often its file was not taken since the daemon started.
    pub errors: u64,
    /// Why its file was last not taken; `None` when it was.
    pub error: Option<String>,
    /// Entries that ban, and stop at what this host needs.
    #[serde(default)]
    #[serde(rename = "spared")]
    pub exempt: ExemptEntries,
    /// Those of them that do not hold for a connected network, and of which the configuration does not say that this is meant.
    #[serde(default)]
    pub connected_unsaid: usize,
    /// The packets that matched one of its entries.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// Names a list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ListTarget {
    /// Its name.
    pub name: String,
}

/// An entry of a list that holds an address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Listed {
    /// The name of the list.
    pub list: Arc<str>,
    /// What it does with the address.
    pub action: Action,
    /// The prefix on it.
    pub prefix: Prefix,
    /// Until when; `None` is for as long as the list has it.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: Option<String>,
}

/// What is exported: lines of text.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExportRequest {
    /// Which entries.
    #[serde(default)]
    pub what: Exported,
    /// The name of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// How they are written.
    #[serde(default)]
    pub format: ExportFormat,
}

/// Which entries are exported.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Exported {
    /// Bans, allows and lists that were imported: all but what comes from files.
    #[default]
    Kept,
    /// Bans.
    Bans,
    /// The allow list, without that of the configuration.
    Allows,
    /// One list.
    List,
    /// Bans, allows and all lists.
    All,
}

/// How entries are written.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub enum ExportFormat {
    /// JSON lines, with all that is known
    #[default]
    Json,
    /// A prefix a line, its reason behind #
    Plain,
}
