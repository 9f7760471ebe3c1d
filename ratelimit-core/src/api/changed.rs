//! Changes by prefix, and their result.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Allowed, LimitsNow, LongerBan, RemainingBan, Unfolded};
use crate::prefix::Prefix;

/// Removes all given prefixes from the allow list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixesRequest {
    /// Prefixes to remove.
    pub prefixes: Vec<Prefix>,
}

/// The result of a change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the answer")]
pub struct Changed {
    /// Number of new entries.
    pub added: usize,
    /// Number of entries that existed and changed.
    pub updated: usize,
    /// Number of removed entries.
    pub removed: usize,
    /// Prefixes to remove that had no entry.
    pub absent: Vec<Prefix>,
    /// Bans by lists or by wider prefixes that still cover an unbanned prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<RemainingBan>,
    /// Bans by folding that the change lifted, so that it takes effect on addresses inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfolded: Vec<Unfolded>,
    /// When the added entries expire; unset if they are permanent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Source prefixes of the addresses in `sources`, in the same order; of an unban, only those
    /// that were banned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Prefix>,
    /// Existing bans of the same prefixes with a later expiry than requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub longer: Vec<LongerBan>,
    /// Prefixes that are allowed, so that the new ban or limit has no effect on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Allowed>,
    /// Whether the host is in a dry run, so that nothing is dropped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The limits that apply after limits were set or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsNow>,
    /// Whether the usage counters of sources with changed limits were reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_anew: bool,
    /// Whether usage is that from before when temporary limits expire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_anew: bool,
    /// Whether the change reaches the other cluster nodes later because the store is unreachable
    /// now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_store: bool,
}
