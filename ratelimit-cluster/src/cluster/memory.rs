//! State that survives a restart.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::Cluster;
use super::peer::Peer;
use crate::budget::members::Views;
use crate::key::Key;
use crate::message::{Replay, Seen};
use crate::name::NodeName;
use crate::statements::{Ended, Statement};

/// State that survives a restart.
#[derive(Clone, Debug, Deserialize, Serialize, SmartDefault)]
#[serde(bound(deserialize = "K: Deserialize<'de>"))]
pub struct Memory<K> {
    /// The statements of this node.
    pub statements: Vec<Statement<K>>,
    /// The incarnation of the last start.
    #[serde(default)]
    pub incarnation: u64,
    /// Statements by which nodes withdrew or lifted others, so that no old message restores those.
    #[serde(default = "Vec::new")]
    pub ended: Vec<(NodeName, Ended<K>)>,
    /// The last message heard from each peer.
    #[serde(default)]
    pub peers: BTreeMap<NodeName, Seen>,
    /// The views of the members.
    #[serde(flatten)]
    pub views: Views,
    /// The shares in the kernel: for each the smaller of the current amount and that after the
    /// lease.
    #[serde(skip)]
    pub shares: BTreeMap<K, u64>,
    /// The divisor of limits for all other keys: the larger of now and after the leases.
    pub divided_by: u64,
}

impl<K> Memory<K> {
    /// Returns the part that remains valid for a node of another name.
    pub fn of_peers(self) -> Self {
        Self {
            ended: self.ended,
            peers: self.peers,
            ..Self::default()
        }
    }
}

impl<K: Key> Cluster<K> {
    /// Returns the state to save.
    pub fn memory(&self) -> Memory<K> {
        let own = self.statements.of_author(&self.config.node, 0);
        let shares = self.budget.shares();
        let seen = |(name, peer): (&NodeName, &Peer)| {
            let seen = peer.replay.as_ref()?.seen();
            Some((name.clone(), seen))
        };
        // The node's own lifts are among its statements.
        let is_beside = |(author, it): &(NodeName, Ended<K>)| {
            *author != self.config.node || it.replaced_until > it.statement.until
        };
        Memory {
            statements: own.map(|(statement, _)| statement).collect(),
            incarnation: self.incarnation.number,
            ended: self.statements.ended().filter(is_beside).collect(),
            peers: self.peers.iter().filter_map(seen).collect(),
            views: self.budget.members().views().clone(),
            shares: shares
                .map(|(key, share)| (key.clone(), share.amount.min(share.then)))
                .collect(),
            divided_by: self
                .budget
                .divided_by()
                .map(|(_, size)| size)
                .into_iter()
                .max()
                .unwrap_or_default(),
        }
    }

    /// Restores the saved state of peers and of lifted statements.
    pub(super) fn recall(
        &mut self,
        ended: Vec<(NodeName, Ended<K>)>,
        peers: BTreeMap<NodeName, Seen>,
    ) {
        for (author, ended) in ended {
            self.stamp = self.stamp.max(ended.statement.stamp);
            self.statements.recall(&author, &ended);
        }
        self.peers = peers
            .into_iter()
            .filter(|(name, _)| *name != self.config.node)
            .map(|(name, seen)| {
                let replay = Some(Replay::resumed(seen));
                let peer = Peer {
                    replay,
                    ..Peer::default()
                };
                (name, peer)
            })
            .collect();
    }
}
