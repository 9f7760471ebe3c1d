//! What this node stated, and who the members were, over a restart.

use ratelimit_cluster::{Cluster as Node, Memory, NodeName};
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::{Membership, wall::Wall};
use crate::{clock, cluster::ClusterKey};

/// As it is written down.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct Remembered {
    node: NodeName,
    /// Whether this host was no node since: the others do not know what it lifted meanwhile.
    #[serde(default)]
    pub was_apart: bool,
    /// The clock of this boot.
    #[serde(default)]
    clock: (String, Wall),
    #[serde(flatten)]
    pub memory: Memory<ClusterKey>,
}

impl Remembered {
    /// What a node would forget.
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
    /// What a node of this name remembers, and whether this host was no node since; only what it knows of others where it had
    /// another name.
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

    /// Notes that this host is no node any more.
    pub(super) fn remember_being_apart(&mut self) {
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
