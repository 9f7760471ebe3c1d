//! The status of the cluster, and the revocation of a node.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use ratelimit_cluster::{NodeName, statements::Subject};
use ratelimit_core::{
    api::{ClusterStatus, NodeState, NodeView, Refused, RevokeRequest, Revoked},
    origin::Origin,
};

use super::{Membership, Node};
use crate::{clock, cluster::ClusterKey, control::state::State};

/// The duration of a revocation, in milliseconds: a year.
const REVOKED: u64 = 366 * 86_400_000;
/// A node that sent nothing for more periods counts as silent.
const SILENT: u32 = 3;

impl Membership {
    /// Returns the URL of the store.
    pub(super) fn url(&self) -> Option<String> {
        self.connection.reported(|config| config.store.to_string())
    }

    /// Returns the status of the cluster, if the configuration has one.
    pub fn status(&self, state: &State) -> Option<ClusterStatus> {
        let url = self.url()?;
        let node = self.connection.reported(|config| config.node.to_string());
        let refused = self.refused.iter();
        let bans = bans_by_node(state);
        Some(ClusterStatus {
            url,
            node: node.unwrap_or_default(),
            connected: self.connection.connected,
            since: self.connection.since,
            error: self.connection.error.clone(),
            bans: bans.values().sum(),
            failures: self.connection.failures,
            nodes: self.node_views(&bans),
            refused: refused
                .map(|(label, refused)| ((*label).to_owned(), refused.count))
                .collect(),
            refusal: self.refusal.as_ref().map(|(_, text)| text.clone()),
            refused_at: self.refusal.as_ref().map(|(at, _)| *at),
            denied: self.denied.count,
            denial: self.denial.clone(),
            not_in_force: self.not_in_force(),
            sharing: self.sharing(),
        })
    }

    fn node_views(&self, bans: &BTreeMap<&str, usize>) -> Vec<NodeView> {
        let Some(node) = &self.node else {
            return Vec::new();
        };
        let members = node.budget().members();
        let names = known(node);
        let is_silent = |name: &NodeName| {
            let mut silent = members.silent();
            !members.names().contains(name)
                || silent.any(|(it, periods)| it == name && periods > SILENT)
        };
        let state = |name: &NodeName| {
            if name == node.name() {
                NodeState::Here
            } else if node.revoked().contains(name) {
                NodeState::Revoked
            } else if is_silent(name) {
                NodeState::Silent
            } else if node.behind().any(|it| it == name) {
                NodeState::Behind
            } else {
                NodeState::Alive
            }
        };
        let view = |name: &NodeName| NodeView {
            name: name.to_string(),
            state: state(name),
            stated: node.held(name),
            bans: bans.get(name.as_str()).copied().unwrap_or_default(),
        };
        names.into_iter().map(view).collect()
    }

    /// Revokes a node on all nodes, or undoes that.
    pub fn revoke(
        &mut self,
        state: &mut State,
        request: RevokeRequest,
        author: &str,
    ) -> Result<Revoked, Refused> {
        let RevokeRequest {
            node: name,
            undo,
            force,
        } = request;
        let now = self.now();
        let Some(node) = &mut self.node else {
            return Err(no_cluster());
        };
        let name = NodeName::new(&name).ok_or_else(|| {
            Refused::because(format!("`{name}` is not a node name"))
                .hint("see `rlctl cluster status`")
        })?;
        if name == *node.name() {
            return Err(Refused::because(format!("`{name}` is this node"))
                .hint("revoke it on another node, or remove [cluster] from its configuration"));
        }
        if !force && !known(node).contains(&name) {
            return Err(Refused::because(format!("unknown node `{name}`"))
                .hint("see `rlctl cluster status`; use --force to revoke an unknown node"));
        }
        let subject = Subject::Node(name.clone());
        let is_new = if undo {
            node.lift(now, subject, author)
        } else {
            let is_new = !node.revoked().contains(&name);
            node.say(now, subject, now.wall + REVOKED, author);
            is_new
        };
        self.is_unwritten = true;
        // Statements of the node no longer count, or count again.
        let all = self.all(state);
        self.put_in_force(state, now, all);
        tracing::info!(node = %name, undo, author, "the revocation of a node changed");
        Ok(Revoked {
            node: name.to_string(),
            revoked: !undo,
            changed: is_new,
            until: (!undo).then(|| in_a_year(now.wall)).flatten(),
        })
    }
}

/// Returns all known nodes: this one, those that report, those with statements, and revoked ones.
fn known(node: &Node<ClusterKey>) -> BTreeSet<&NodeName> {
    let members = node.budget().members();
    let mut names: BTreeSet<&NodeName> = members.names().iter().collect();
    names.extend(node.peers());
    names.extend(node.revoked());
    names
}

/// Counts the bans in force by the node that made them.
fn bans_by_node(state: &State) -> BTreeMap<&str, usize> {
    let now = clock::now();
    let mut counts = BTreeMap::new();
    for ((_, origin), row) in state.intent.bans() {
        if let (Origin::Cluster(node), true) = (origin, row.until > now) {
            *counts.entry(&**node).or_default() += 1;
        }
    }
    counts
}

fn in_a_year(wall: u64) -> Option<Timestamp> {
    let until = i64::try_from(wall + REVOKED).ok()?;
    Timestamp::from_millisecond(until).ok()
}

pub fn no_cluster() -> Refused {
    Refused::because("this host is not in a cluster")
        .hint("add [cluster] to the configuration, then `rlctl reload`")
}
