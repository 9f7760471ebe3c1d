//! What outlives a restart.

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

/// What outlives a restart.
#[derive(Clone, Debug, Deserialize, Serialize, SmartDefault)]
#[serde(bound(deserialize = "K: Deserialize<'de>"))]
pub struct Memory<K> {
    /// What this node stated itself.
    pub statements: Vec<Statement<K>>,
    /// The incarnation of its last start.
    #[serde(default)]
    pub incarnation: u64,
    /// What nodes have taken back or lifted, so that no old message brings it back.
    #[serde(default = "Vec::new")]
    pub ended: Vec<(NodeName, Ended<K>)>,
    /// Up to which message each peer was heard.
    #[serde(default)]
    pub peers: BTreeMap<NodeName, Seen>,
    /// Who the members were.
    #[serde(flatten)]
    pub views: Views,
    /// The shares that the kernel holds: of each the smaller of what it is now and after its lease.
    #[serde(skip)]
    pub shares: BTreeMap<K, u64>,
    /// By how many a limit is divided for every other key: the larger of now and after the leases.
    pub divided_by: u64,
}

impl<K> Memory<K> {
    /// What is left of it for a node of another name.
    pub fn of_peers(self) -> Self {
        Self {
            ended: self.ended,
            peers: self.peers,
            ..Self::default()
        }
    }
}

impl<K: Key> Cluster<K> {
    /// What has to outlive a restart.
    pub fn memory(&self) -> Memory<K> {
        let own = self.statements.of_author(&self.config.node, 0);
        let shares = self.budget.shares();
        let seen = |(name, peer): (&NodeName, &Peer)| {
            let seen = peer.replay.as_ref()?.seen();
            Some((name.clone(), seen))
        };
        // A lift of its own is among its statements.
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

    /// Takes in what was remembered of peers, and of what was ended.
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
