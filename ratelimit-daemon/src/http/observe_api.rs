//! What the network may read: metrics and health.

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};

use crate::{
    control::{self, Handle},
    exposition::Format,
    metrics,
};

/// `/metrics` and `/healthz`.
pub fn router(controller: Handle) -> Router {
    Router::new()
        .route("/metrics", get(metrics_page))
        .route("/healthz", get(health))
        .with_state(controller)
}

async fn metrics_page(State(controller): State<Handle>, headers: HeaderMap) -> Response {
    let accept = headers
        .get(header::ACCEPT)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let format = Format::negotiate(accept);
    match control::scrape(&controller).await {
        Ok(Ok(snapshot)) => {
            let text = metrics::render(&snapshot, format);
            ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
        }
        Ok(Err(refused)) => (StatusCode::INTERNAL_SERVER_ERROR, refused.error).into_response(),
        Err(stopped) => (StatusCode::SERVICE_UNAVAILABLE, stopped.to_string()).into_response(),
    }
}

/// Healthy is: the controller answers, and the program runs on every interface. `pass-all` is no illness, somebody wants it:
/// it is told, and no reason to take the host out of service.
async fn health(State(controller): State<Handle>) -> Response {
    let Ok(status) = controller.call(|controller| controller.status()).await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response();
    };
    let detached: Vec<String> = status
        .interfaces
        .into_iter()
        .filter(|interface| !interface.attached)
        .map(|interface| interface.name)
        .collect();
    if !detached.is_empty() {
        let detached = format!("not attached: {}\n", detached.join(", "));
        return (StatusCode::SERVICE_UNAVAILABLE, detached).into_response();
    }
    match status.pass_all {
        Some(_) => "pass-all is on: nothing is dropped\n".into_response(),
        None => "ok\n".into_response(),
    }
}
