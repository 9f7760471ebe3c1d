//! `rlctl cluster`, and what the task of the cluster asks for.

use std::sync::Arc;

use ratelimit_cluster::{Outgoing, message::Secret};
use ratelimit_core::{
    api::{Refused, RevokeRequest, Revoked},
    config::cluster::Cluster,
};

use super::Command;
use crate::{
    cluster::Heard,
    control::{Joined, controller::Controller},
};

/// Becomes a node.
pub struct JoinCluster {
    /// The cluster.
    pub config: Cluster,
    /// Its secret.
    pub secret: Secret,
}

impl Command for JoinCluster {
    type Answer = Joined;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.join_cluster(&self.config, self.secret)
    }
}

/// Is a node no more.
pub struct LeaveCluster;

impl Command for LeaveCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.leave_cluster();
    }
}

/// Has all told again: the store is reached.
pub struct ReachCluster;

impl Command for ReachCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.reach_cluster();
    }
}

/// Notes that the store answers.
pub struct FindCluster;

impl Command for FindCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.find_cluster();
    }
}

/// Notes that the store does not answer.
pub struct LoseCluster {
    /// Why.
    pub error: String,
}

impl Command for LoseCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.lose_cluster(self.error);
    }
}

/// Takes in what the others told, and answers what is to be sent.
pub struct StepCluster {
    /// What the store told.
    pub heard: Vec<Heard>,
}

impl Command for StepCluster {
    type Answer = Vec<Outgoing>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.step_cluster(self.heard)
    }
}

/// Takes in what was told before.
pub struct HearStored {
    /// What the store told.
    pub heard: Vec<Heard>,
}

impl Command for HearStored {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.hear_stored(self.heard);
    }
}

/// Refuses what another node says, or takes that back.
pub struct RevokeNode {
    /// What is asked for.
    pub request: RevokeRequest,
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for RevokeNode {
    type Answer = Result<Revoked, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.revoke_node(self.request, &self.author)
    }
}
