//! `rlctl cluster`.

use ratelimit_core::{
    api::{ClusterStatus, Refused},
    config::cluster::Cluster,
};
use tokio::sync::watch;

use crate::control::{controller::Controller, feeds::cluster::no_cluster};

/// Returns the status of the cluster.
pub fn cluster_state(controller: &Controller) -> Result<ClusterStatus, Refused> {
    let status = controller.feeds.cluster.status(&controller.state);
    status.ok_or_else(no_cluster)
}

/// Follows the configured cluster, which may change with each reload.
pub fn cluster_wishes(controller: &Controller) -> watch::Receiver<Option<Cluster>> {
    controller.feeds.cluster.wishes()
}
