//! The cluster that a host is a node of.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The state of the cluster store and the nodes.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClusterStatus {
    /// Address of the store, without password.
    pub url: String,
    /// Name of this node.
    pub node: String,
    /// Whether the store is reachable; unset before the first response or failure.
    pub connected: Option<bool>,
    /// When the connection state last changed.
    pub since: Timestamp,
    /// The reason the store is unreachable, or bans of other nodes are not in force.
    pub error: Option<String>,
    /// Number of bans by other nodes in force on this one.
    pub bans: usize,
    /// Number of failed requests to the store.
    pub failures: u64,
    /// Nodes of the cluster, sorted by name.
    pub nodes: Vec<NodeView>,
    /// Number of refused messages by reason.
    pub refused: BTreeMap<String, u64>,
    /// The error of the last refused message: the node, the cause and the remedy.
    pub refusal: Option<String>,
    /// When the last message was refused.
    pub refused_at: Option<Timestamp>,
    /// Number of changes by other nodes that are ignored here because they are too wide, too many,
    /// protected or allowed.
    pub denied: u64,
    /// The last ignored change, its node and the cause.
    pub denial: Option<String>,
    /// Allows and runtime limits of other nodes that are not in force here.
    #[serde(default)]
    pub not_in_force: Vec<NotInForce>,
    /// How shared limits are divided; unset if no limit is shared.
    #[serde(default)]
    pub sharing: Option<SharingStatus>,
}

/// A change made with `--cluster` on another node that cannot be applied here.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NotInForce {
    /// The object: `the limits of 203.0.113.0/24`.
    pub what: String,
    /// The node that made the change.
    pub node: String,
    /// The reason the change is not in force here.
    pub why: String,
}

/// How the nodes divide shared limits, as seen by this node.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SharingStatus {
    /// Number of shared counters with a share on this node: sources, prefixes and nodes, times
    /// their limits.
    pub keys: usize,
    /// Number of counters without room for a share, which use the limit divided by the number of
    /// nodes.
    pub without_room: usize,
    /// Length of a sharing period in seconds.
    pub period_seconds: f64,
    /// Configured number of nodes.
    pub configured_nodes: u32,
    /// Number of nodes that limits are divided by.
    pub divided_by: u64,
    /// When limits were last divided with reports of all nodes.
    pub divided_at: Option<Timestamp>,
    /// The reason this node uses only the guaranteed share of each limit; unset if limits are
    /// divided.
    pub fallback: Option<String>,
    /// When the node began to fall back or to divide limits.
    pub since: Timestamp,
}

/// The share of a node in a limit.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ShareView {
    /// Packets or bytes per window that this node admits now.
    pub here: u64,
    /// When the share last changed; unset if it changed just now.
    pub since: Option<Timestamp>,
    /// Packets or bytes per window that all other nodes admit; unset if unknown.
    pub others: Option<u64>,
}

/// A node of the cluster.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct NodeView {
    /// Name of the node.
    pub name: String,
    /// State of the node.
    pub state: NodeState,
    /// Number of entries that the node publishes: bans, removals and revocations.
    pub stated: usize,
    /// Number of its bans in force here.
    pub bans: usize,
}

/// The state of a node, as seen by this one.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum NodeState {
    /// The node that answers the request.
    Here,
    /// Reports, and all its messages arrived.
    Alive,
    /// Reports, but some of its messages are missing.
    Behind,
    /// Does not report.
    Silent,
    /// Revoked: all its messages are ignored.
    Revoked,
}

impl NodeState {
    /// All states of a node.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Returns the label used in metrics.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Returns whether the node reports and is not revoked.
    pub fn reports(self) -> bool {
        match self {
            Self::Here | Self::Alive | Self::Behind => true,
            Self::Silent | Self::Revoked => false,
        }
    }
}

/// Revokes a node, or lifts its revocation.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RevokeRequest {
    /// Name of the node.
    pub node: String,
    /// Lifts the revocation.
    #[serde(default)]
    pub undo: bool,
    /// Permits the name of a node that is unknown here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// The result of a revocation.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Revoked {
    /// Name of the node.
    pub node: String,
    /// Whether the node is revoked now.
    pub revoked: bool,
    /// Whether this request changed the state.
    pub changed: bool,
    /// When the revocation expires.
    pub until: Option<Timestamp>,
}
