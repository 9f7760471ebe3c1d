//! What is told of the cluster, and the revocation of a node.

use jiff::Timestamp;
use ratelimit_cluster::{NodeName, statements::Subject};
use ratelimit_core::{
    api::{ClusterStatus, NodeState, NodeView, Refused, RevokeRequest, Revoked},
    origin::Origin,
};

use super::{Controller, Membership};
use crate::clock;

/// A revocation lasts so long, in milliseconds: a year.
const REVOKED: u64 = 366 * 86_400_000;
/// A node is silent that sent nothing for more periods.
const SILENT: u32 = 3;

impl Membership {
    /// Where the store is.
    pub(super) fn url(&self) -> Option<String> {
        let wish = self.wish.borrow();
        wish.as_ref().map(|config| config.store.to_string())
    }
}

impl Controller {
    /// How the cluster is; `None` where the configuration names none.
    #[must_use]
    pub(in crate::control) fn cluster_status(&self) -> Option<ClusterStatus> {
        let cluster = &self.cluster;
        let url = cluster.url()?;
        let name = cluster.wish.borrow();
        let name = name.as_ref().map(|config| config.node.to_string());
        let refused = cluster.refused.iter();
        let bans = self.cluster_bans();
        Some(ClusterStatus {
            url,
            node: name.unwrap_or_default(),
            connected: cluster.connected,
            since: cluster.since,
            error: cluster.error.clone(),
            bans: bans.values().sum(),
            failures: cluster.failures,
            nodes: self.node_views(&bans),
            refused: refused
                .map(|(label, refused)| ((*label).to_owned(), refused.count))
                .collect(),
            refusal: cluster.refusal.as_ref().map(|(_, text)| text.clone()),
            refused_at: cluster.refusal.as_ref().map(|(at, _)| *at),
            denied: cluster.denied,
        })
    }

    /// The bans in force that other nodes made, by node.
    fn cluster_bans(&self) -> std::collections::BTreeMap<&str, usize> {
        let now = clock::now();
        let mut counts = std::collections::BTreeMap::new();
        for ((_, origin), row) in self.state.intent.bans() {
            if let (Origin::Cluster(node), true) = (origin, row.until > now) {
                *counts.entry(&**node).or_default() += 1;
            }
        }
        counts
    }

    fn node_views(&self, bans: &std::collections::BTreeMap<&str, usize>) -> Vec<NodeView> {
        let Some(node) = &self.cluster.node else {
            return Vec::new();
        };
        let members = node.budget().members();
        let mut names: std::collections::BTreeSet<&NodeName> = members.names().iter().collect();
        names.extend(node.peers());
        names.extend(node.revoked());
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

    /// The same for whoever asks about nothing else.
    ///
    /// # Errors
    ///
    /// When this host is no node.
    pub fn cluster(&self) -> Result<ClusterStatus, Refused> {
        self.cluster_status().ok_or_else(no_cluster)
    }

    /// Revokes a node on all nodes, or takes that back.
    ///
    /// # Errors
    ///
    /// When this host is no node, or the name is none of another one.
    pub fn revoke_node(
        &mut self,
        request: RevokeRequest,
        author: &str,
    ) -> Result<Revoked, Refused> {
        let RevokeRequest { node: name, undo } = request;
        let Some(node) = &mut self.cluster.node else {
            return Err(no_cluster());
        };
        let name = NodeName::new(&name).ok_or_else(|| {
            Refused::because(format!("`{name}` is no name of a node"))
                .hint("`rlctl cluster nodes` shows the names")
        })?;
        if name == *node.name() {
            return Err(Refused::because(format!("`{name}` is this node"))
                .hint("revoke it on another one, or remove [cluster] from its configuration"));
        }
        let now = super::now();
        let subject = Subject::Node(name.clone());
        let is_new = if undo {
            node.lift(now, subject, author)
        } else {
            let is_new = !node.revoked().contains(&name);
            node.say(now, subject, now.wall + REVOKED, author);
            is_new
        };
        self.cluster.is_unwritten = true;
        // What it stated counts no more, or again.
        let all = self.all_of_cluster();
        self.put_in_force(now, all);
        tracing::info!(node = %name, undo, author, "a node was revoked, or is no more");
        Ok(Revoked {
            node: name.to_string(),
            revoked: !undo,
            changed: is_new,
            until: (!undo).then(|| in_a_year(now.wall)).flatten(),
        })
    }
}

fn in_a_year(wall: u64) -> Option<Timestamp> {
    let until = i64::try_from(wall + REVOKED).ok()?;
    Timestamp::from_millisecond(until).ok()
}

fn no_cluster() -> Refused {
    Refused::because("this host is no node of a cluster")
        .hint("write [cluster] into the configuration, and run `rlctl reload`")
}
