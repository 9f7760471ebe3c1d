//! All that is said about an address.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Allow, Ban, EntryCounter, RuntimeEntry};
use crate::prefix::Prefix;

/// An entry of a table whose prefix covers an address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Covering {
    /// The table, and its entry.
    #[serde(flatten)]
    pub entry: Entry,
    /// Whether it is what decides.
    pub decides: bool,
}

/// An entry of one of the tables.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "table", rename_all = "kebab-case")]
pub enum Entry {
    /// Of the allow list.
    Allow(Allow),
    /// A ban.
    Ban(Ban),
    /// A policy.
    Policy {
        /// Its name.
        policy: String,
        /// The prefix that it is for; `None` for the default policy.
        prefix: Option<Prefix>,
        /// Who set its runtime limits, until when and why; nothing of it is there where nobody did.
        #[serde(flatten)]
        runtime: Option<RuntimeEntry>,
        /// The packets that were judged by it.
        #[serde(flatten)]
        counter: EntryCounter,
    },
}
