//! `rlctl cluster`, and the commands of the cluster task.

use std::sync::Arc;

use ratelimit_cluster::{NodeName, Outgoing, message::Secret};
use ratelimit_core::{
    api::{Refused, RevokeRequest, Revoked},
    config::cluster::Cluster,
};

use tracing::warn;

use super::Command;
use crate::{
    cluster::Heard,
    control::{
        controller::Controller, enforcement::enforcer::leases::Leases, feeds::cluster::CLUSTER,
        state::unshared::Unshared,
    },
};

/// Joins a cluster.
pub struct JoinCluster {
    /// The configuration of the cluster.
    pub config: Cluster,
    /// The secret of the cluster.
    pub secret: Secret,
}

impl Command for JoinCluster {
    type Answer = NodeName;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        // Announce all bans of this host to the other nodes.
        state.noted.unshared.begin(&state.intent);
        feeds.cluster.join(state, &self.config, self.secret)
    }
}

/// Leaves the cluster.
pub struct LeaveCluster;

impl Command for LeaveCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        state.noted.unshared = Unshared::default();
        feeds.cluster.leave(state);
        state.report(CLUSTER, None);
        // Without leases, only the minimum share of each source is left of shared limits.
        if let Err(error) = state.lease(&Leases::default()) {
            warn!(%error, "the shares of limits are still in force");
        }
        feeds.cluster.report_excess(state);
    }
}

/// Announces everything again, as the store is reachable again.
pub struct ReachCluster;

impl Command for ReachCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.feeds.cluster.reach();
    }
}

/// Records whether the store accepts messages, or why not.
pub struct NoteStore(pub Result<(), String>);

impl Command for NoteStore {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller
            .feeds
            .cluster
            .note_store(&mut controller.state, self.0);
    }
}

/// Processes messages of other nodes, and returns the messages to send.
pub struct StepCluster(pub Vec<Heard>);

impl Command for StepCluster {
    type Answer = Vec<Outgoing>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        feeds.cluster.step(state, self.0);
        let outgoing = feeds.cluster.outgoing(state);
        feeds.cluster.lease(state);
        feeds.cluster.report_excess(state);
        feeds.cluster.write();
        outgoing
    }
}

/// Processes messages that the store has kept.
pub struct HearStored(pub Vec<Heard>);

impl Command for HearStored {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        feeds.cluster.hear_stored(state, self.0);
    }
}

/// Refuses all statements of a node, or accepts them again.
pub struct RevokeNode(pub RevokeRequest, pub Arc<str>);

impl Command for RevokeNode {
    type Answer = Result<Revoked, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        feeds.cluster.revoke(state, self.0, &self.1)
    }
}
