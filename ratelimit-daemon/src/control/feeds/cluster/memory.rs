//! Saves the statements of this node and its knowledge of the members over a restart.

use ratelimit_cluster::{Cluster as Node, Memory, NodeName};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{Membership, wall::Wall};
use crate::{clock, cluster::ClusterKey};

/// The saved document.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Remembered {
    node: NodeName,
    /// Whether this host has left the cluster since. Then the other nodes do not know what it
    /// lifted in between.
    #[serde(default)]
    pub was_apart: bool,
    /// The clock, with the ID of its boot.
    #[serde(default)]
    clock: (String, Wall),
    #[serde(flatten)]
    pub memory: Memory<ClusterKey>,
}

impl Remembered {
    /// Collects what a node needs after a restart.
    pub fn of(node: &Node<ClusterKey>, wall: Wall) -> Self {
        Self {
            node: node.name().clone(),
            was_apart: false,
            clock: (clock::boot_id(), wall),
            memory: node.memory(),
        }
    }
}

impl Membership {
    /// Returns the memory of a node with this name, and whether this host had left the cluster
    /// since. If it had another name, only the memory of its peers.
    pub(super) fn remembered(&self, node: &NodeName) -> (bool, Memory<ClusterKey>) {
        let kept = self.kept.read().unwrap_or_else(|error| {
            warn!(
                error = format!("{error:#}"),
                "restored this node's entries from the store and published its bans again"
            );
            None
        });
        let is_of_boot = |kept: &&Remembered| kept.clock.0 == clock::boot_id();
        if let Some(kept) = kept.as_ref().filter(is_of_boot) {
            self.wall.set(kept.clock.1);
        }
        kept.map(|kept| {
            if kept.node == *node {
                (kept.was_apart, kept.memory)
            } else {
                (false, kept.memory.of_peers())
            }
        })
        .unwrap_or_default()
    }

    /// Records that this host has left the cluster.
    pub(super) fn record_leaving(&mut self) {
        let remembered = match &self.node {
            Some(node) => Some(Remembered::of(node, self.wall.get())),
            None => self.kept.read().ok().flatten(),
        };
        if let Some(remembered) = remembered.filter(|it| !it.was_apart) {
            self.keep(&Remembered {
                was_apart: true,
                ..remembered
            });
        }
    }
}
