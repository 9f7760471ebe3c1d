//! Serves on the listeners that the controller hands over.

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::control::Listeners;

/// Runs `serve` with the last listener that came, until `stop`.
pub async fn serve_each<F: Future<Output = ()> + Send + 'static>(
    mut listeners: Listeners,
    stop: CancellationToken,
    serve: impl Fn(TcpListener, CancellationToken) -> F,
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
            tokio::spawn(serve(listener, token.clone()));
            serving = Some(token);
        }
    }
}
