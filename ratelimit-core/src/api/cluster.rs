//! The cluster that a host is a node of.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// How the store is, and which nodes there are.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClusterStatus {
    /// Where the store is, without a password.
    pub url: String,
    /// The name of this node.
    pub node: String,
    /// Whether the store takes messages; `None` before the first answer or failure.
    pub connected: Option<bool>,
    /// Since when that is so.
    pub since: Timestamp,
    /// Why it does not, or why what other nodes ban could not be put in force.
    pub error: Option<String>,
    /// Bans of other nodes that are in force here.
    pub bans: usize,
    /// How often the store failed.
    pub failures: u64,
    /// The nodes, by name.
    pub nodes: Vec<NodeView>,
    /// Messages that were refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Why the last one was refused: which node, and what to do.
    pub refusal: Option<String>,
    /// When that was.
    pub refused_at: Option<Timestamp>,
    /// Statements of other nodes without effect here: too wide, too many, protected or allowed.
    pub denied: u64,
    /// The last of them, who stated it and why it has no effect.
    pub denial: Option<String>,
    /// Allows and runtime limits that other nodes state and that are not in force here.
    #[serde(default)]
    pub not_in_force: Vec<NotInForce>,
    /// How limits are divided; `None` where no limit is shared.
    #[serde(default)]
    pub sharing: Option<SharingStatus>,
    /// Sources that proved themselves here, which the other nodes were told of since the daemon started.
    #[serde(default)]
    pub verified_told: u64,
    /// Sources that proved themselves on other nodes, and were taken over.
    #[serde(default)]
    pub verified_taken: u64,
    /// Those that were not: too many, banned, or nobody is challenged here.
    #[serde(default)]
    pub verified_denied: u64,
}

/// What another node set with `--cluster`, and this one cannot have.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NotInForce {
    /// What: `the limits of 203.0.113.0/24`.
    pub what: String,
    /// The node that set it.
    pub node: String,
    /// Why it is not in force here.
    pub why: String,
}

/// How the nodes divide their limits, as this one sees it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SharingStatus {
    /// Sources, prefixes and nodes that have a share of their own here; each limit of one counts.
    pub keys: usize,
    /// Those of them that have the limit divided by the nodes, as there is no room for their shares.
    pub without_room: usize,
    /// How long a period is, in milliseconds.
    pub period_ms: u64,
    /// How many nodes the configuration says that there are.
    pub configured_nodes: u32,
    /// By how many nodes limits are divided.
    pub divided_by: u64,
    /// When limits were last divided by the reports of all nodes.
    pub divided_at: Option<Timestamp>,
    /// Why this node admits no more of each limit than it may always claim; `None` where limits are divided.
    pub fallback: Option<String>,
    /// Since when that is so, or since when limits are divided.
    pub since: Timestamp,
}

/// What a node may admit of a limit that nodes share.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ShareView {
    /// How much this node admits in a window at this moment, in packets or bytes.
    pub here: u64,
    /// Since when it is that much; `None` where it has just changed.
    pub since: Option<Timestamp>,
    /// How much all other nodes may admit together; `None` where that is not known.
    pub others: Option<u64>,
}

/// A node.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: NodeState,
    /// What it states: bans, ends of bans and revocations.
    pub stated: usize,
    /// Bans in force here that are of it.
    pub bans: usize,
}

/// How a node is, as another one sees it.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeState {
    /// It is the one that answers.
    Here,
    /// It reports, and all that it states is known.
    Alive,
    /// It reports, and some of what it states is missing.
    Behind,
    /// It does not report.
    Silent,
    /// It was revoked: nothing that it states counts.
    Revoked,
}

impl NodeState {
    /// All of them.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The label of a metric.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Whether it reports, and counts.
    pub fn reports(self) -> bool {
        match self {
            Self::Here | Self::Alive | Self::Behind => true,
            Self::Silent | Self::Revoked => false,
        }
    }
}

/// Revokes a node.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RevokeRequest {
    /// Its name.
    pub node: String,
    /// Whether a revocation is to be taken back.
    #[serde(default)]
    pub undo: bool,
    /// Whether it may be a node that this one does not know.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// What became of a revocation.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Revoked {
    /// The node.
    pub node: String,
    /// Whether it is revoked.
    pub revoked: bool,
    /// Whether that is new.
    pub changed: bool,
    /// Until when.
    pub until: Option<Timestamp>,
}
