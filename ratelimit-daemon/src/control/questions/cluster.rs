//! The cluster.

use ratelimit_core::{
    api::{ClusterStatus, Refused},
    config::cluster::Cluster,
};
use tokio::sync::watch;

use crate::control::{controller::Controller, feeds::cluster::no_cluster, question::Question};

/// How the cluster is.
#[derive(Clone, Copy)]
pub struct ClusterState;

impl Question for ClusterState {
    type Answer = Result<ClusterStatus, Refused>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        let status = controller.cluster.status(&controller.state);
        status.ok_or_else(no_cluster)
    }
}

/// Which cluster is to be joined, and later after each reload.
#[derive(Clone, Copy)]
pub struct ClusterWishes;

impl Question for ClusterWishes {
    type Answer = watch::Receiver<Option<Cluster>>;

    fn answer(self, controller: &Controller) -> Self::Answer {
        controller.cluster.wishes()
    }
}
