//! An attack that is going on.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{detection::Kind, limit::LimitSpec, prefix::Prefix};

/// An attack in progress.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct AttackView {
    /// The kind of attack.
    pub kind: Kind,
    /// Target or origin of the attack: `to 10.10.10.10`, `from 192.0.2.0/24`.
    pub subject: String,
    /// Highest packet rate so far, per second.
    pub packets_per_second: u64,
    /// Highest number of sources per second so far, a lower bound.
    pub sources: u64,
    /// When the attack was detected.
    pub since: Timestamp,
}

/// An additional limit for sources that take part in an attack, or have as many connections as they
/// may.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Limited {
    /// Prefix of the sources; each source has the limit for itself.
    pub prefix: Prefix,
    /// When the limit expires.
    pub until: Timestamp,
    /// When the limit was set.
    pub since: Timestamp,
    /// The kind of attack; `null` for connections.
    pub kind: Option<Kind>,
    /// Definition of the limit.
    pub limit: LimitSpec,
}
