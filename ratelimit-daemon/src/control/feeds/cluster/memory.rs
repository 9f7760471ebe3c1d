//! What this node stated, and who the members were, over a restart.

use ratelimit_cluster::{Cluster as Node, Memory, NodeName};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::Membership;
use crate::cluster::ClusterKey;

/// As it is written down.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Remembered {
    node: NodeName,
    #[serde(flatten)]
    pub memory: Memory<ClusterKey>,
}

impl Remembered {
    /// What a node would forget.
    pub fn of(node: &Node<ClusterKey>) -> Self {
        Self {
            node: node.name().clone(),
            memory: node.memory(),
        }
    }
}

impl Membership {
    /// What a node of this name remembers; nothing where this host had another name.
    pub(super) fn remembered(&self, node: &NodeName) -> Memory<ClusterKey> {
        match self.kept.read() {
            Ok(Some(remembered)) if remembered.node == *node => remembered.memory,
            Ok(_) => Memory::default(),
            Err(error) => {
                warn!(
                    error = format!("{error:#}"),
                    "what this node stated is read from the store, and its bans are stated again"
                );
                Memory::default()
            }
        }
    }
}
