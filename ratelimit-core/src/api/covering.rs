//! All that is said about an address.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Allow, Ban, EntryCounter, RuntimeEntry};
use crate::prefix::Prefix;

/// An entry whose prefix covers an address.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Covering {
    /// The entry and the table it is in.
    #[serde(flatten)]
    pub entry: CoveringEntry,
    /// Whether this entry decides the verdict.
    pub decides: bool,
}

/// An entry of the allow list, the bans or the policies.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(tag = "table", rename_all = "kebab-case")]
pub enum CoveringEntry {
    /// An entry of the allow list.
    Allow(Allow),
    /// A ban in force.
    Ban(Ban),
    /// A policy that selects the address.
    Policy {
        /// Name of the policy.
        policy: String,
        /// Prefix of the policy; unset for the default policy.
        prefix: Option<Prefix>,
        /// Author, expiry and reason of limits that were set at runtime.
        #[serde(flatten)]
        runtime: Option<RuntimeEntry>,
        /// Packets judged by the policy.
        #[serde(flatten)]
        counter: EntryCounter,
    },
}
