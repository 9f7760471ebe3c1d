//! Serves metrics and the dashboard to the network.

use axum::Extension;
use tokio_util::sync::CancellationToken;

use super::{
    dashboard::{self, Audience},
    listeners::serve_each,
    metrics_api,
    serve::serve_read_only,
};
use crate::{
    control::{Handle, Listeners},
    stream::Streams,
    traffic_log::TrafficLog,
};

/// Serves on the last listener that came, until `stop`.
pub async fn serve_metrics(
    listeners: Listeners,
    controller: Handle,
    history: TrafficLog,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    serve_each(listeners, stop, |listener, token| {
        let dashboard = dashboard::router(controller.clone(), history.clone(), Audience::Network)
            .layer(Extension(Streams::new(token.clone())));
        let router = metrics_api::router(controller.clone())
            .merge(dashboard)
            .merge(dashboard::token::router(controller.clone()));
        serve_read_only(listener, router, token)
    })
    .await
}
