//! `rlctl cluster`, and what the task of the cluster asks for.

use std::sync::Arc;

use ratelimit_cluster::{NodeName, Outgoing, message::Secret};
use ratelimit_core::{
    api::{Refused, RevokeRequest, Revoked},
    config::cluster::Cluster,
};

use super::Command;
use crate::{cluster::Heard, control::controller::Controller};

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
        controller
            .cluster
            .join(&mut controller.state, &self.config, self.secret)
    }
}

/// Is a node no more.
pub struct LeaveCluster;

impl Command for LeaveCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let troubles = &mut controller.troubles;
        controller.cluster.leave(&mut controller.state, troubles);
    }
}

/// Has all told again: the store is reached.
pub struct ReachCluster;

impl Command for ReachCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller.cluster.reach();
    }
}

/// Notes that the store answers.
pub struct FindCluster;

impl Command for FindCluster {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let troubles = &mut controller.troubles;
        controller.cluster.find(&mut controller.state, troubles);
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
        let troubles = &mut controller.troubles;
        controller
            .cluster
            .lose(&mut controller.state, troubles, self.error);
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
        let troubles = &mut controller.troubles;
        controller
            .cluster
            .step(&mut controller.state, troubles, self.heard)
    }
}

/// Takes in what was reported before.
pub struct HearStored {
    /// What the store told.
    pub heard: Vec<Heard>,
}

impl Command for HearStored {
    type Answer = ();

    fn run(self, controller: &mut Controller) -> Self::Answer {
        controller
            .cluster
            .hear_stored(&mut controller.state, self.heard);
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
        controller
            .cluster
            .revoke(&mut controller.state, self.request, &self.author)
    }
}
