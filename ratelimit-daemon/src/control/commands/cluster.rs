//! `rlctl cluster`, and what the task of the cluster asks for.

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

/// Becomes a node.
pub struct JoinCluster {
    /// The cluster.
    pub config: Cluster,
    /// Its secret.
    pub secret: Secret,
}

impl Command for JoinCluster {
    type Answer = NodeName;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        // All bans of this host are told to the others.
        state.noted.unshared.begin(&state.intent);
        feeds.cluster.join(state, &self.config, self.secret)
    }
}

/// Is a node no more.
pub struct LeaveCluster;

impl Command for LeaveCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        state.noted.unshared = Unshared::default();
        feeds.cluster.leave(state);
        state.report(CLUSTER, None);
        // What every source may always use is all that is left of the limits.
        if let Err(error) = state.lease(&Leases::default()) {
            warn!(%error, "the shares of limits are still in force");
        }
        feeds.cluster.report_excess(state);
    }
}

/// Has all told again: the store is reached.
pub struct ReachCluster;

impl Command for ReachCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.feeds.cluster.reach();
    }
}

/// Notes that the store takes messages, or why it does not.
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

/// Takes in what the others told, and answers what is to be sent.
pub struct StepCluster(pub Vec<Heard>);

impl Command for StepCluster {
    type Answer = Vec<Outgoing>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        let own_bans = state.noted.unshared.take();
        feeds.cluster.step(state, &own_bans, self.0);
        let outgoing = feeds.cluster.outgoing(state);
        feeds.cluster.lease(state);
        feeds.cluster.report_excess(state);
        feeds.cluster.write();
        outgoing
    }
}

/// Takes in what was reported before.
pub struct HearStored(pub Vec<Heard>);

impl Command for HearStored {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        feeds.cluster.hear_stored(state, self.0);
    }
}

/// Refuses what another node says, or takes that back.
pub struct RevokeNode(pub RevokeRequest, pub Arc<str>);

impl Command for RevokeNode {
    type Answer = Result<Revoked, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Controller { feeds, state, .. } = controller;
        feeds.cluster.revoke(state, self.0, &self.1)
    }
}
