//! Serves metrics on whatever listener the controller hands over.

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{observe_router, serve_observe};
use crate::control::{Handle, Listeners};

/// Serves on the last listener that came, until `stop`.
///
/// # Errors
///
/// When a listener cannot be used.
pub async fn serve_metrics(
    mut listeners: Listeners,
    controller: Handle,
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
            let router = observe_router(controller.clone());
            tokio::spawn(serve_observe(listener, router, token.clone()));
            serving = Some(token);
        }
    }
}
