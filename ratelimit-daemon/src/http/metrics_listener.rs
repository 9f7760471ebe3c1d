//! Serves metrics on whatever listener the controller hands over.

use axum::Extension;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{
    dashboard::{self, Audience},
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
    mut listeners: Listeners,
    controller: Handle,
    history: TrafficLog,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let mut serving: Option<CancellationToken> = None;
    loop {
        let listener = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            listener = listeners.recv() => listener,
        };
        let Some(listener) = listener else {
            stop.cancelled().await;
            return Ok(());
        };
        if let Some(serving) = serving.take() {
            serving.cancel();
        }
        if let Some(listener) = listener {
            listener.set_nonblocking(true)?;
            let listener = TcpListener::from_std(listener)?;
            let token = stop.child_token();
            let dashboard =
                dashboard::router(controller.clone(), history.clone(), Audience::Network)
                    .layer(Extension(Streams::new(token.clone())));
            let router = metrics_api::router(controller.clone())
                .merge(dashboard)
                .merge(dashboard::token::router(controller.clone()));
            tokio::spawn(serve_read_only(listener, router, token.clone()));
            serving = Some(token);
        }
    }
}
