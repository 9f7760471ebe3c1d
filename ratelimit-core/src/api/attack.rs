//! An attack that is going on.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{detection::Kind, limit::LimitSpec, prefix::Prefix};

/// An attack that is going on.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AttackView {
    /// What it is.
    pub kind: Kind,
    /// What it goes against, or where it comes from: `to 10.10.10.10`, `from 192.0.2.0/24`.
    pub subject: String,
    /// The most packets in a second so far.
    pub packets_per_second: u64,
    /// The most sources in a second so far, or more.
    pub sources: u64,
    /// Since when it is known.
    pub since: Timestamp,
}

/// A further limit of what sources of an attack may send, beside those of their policy.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Limited {
    /// Whose. Each source of it has the limit for itself.
    pub prefix: Prefix,
    /// Until when.
    pub until: Timestamp,
    /// Since when.
    pub since: Timestamp,
    /// The attack.
    pub kind: Kind,
    /// The limit.
    pub limit: LimitSpec,
}
