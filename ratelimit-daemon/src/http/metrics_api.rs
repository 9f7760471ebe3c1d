//! Public endpoints: metrics and health.

use std::time::Duration;

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use ratelimit_core::exposition::Format;
use tokio::time::timeout;

use crate::{
    control::{Handle, Unanswered, commands::LookAtLinks, queries},
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
    match queries::scrape(&controller).await {
        Ok(Ok(snapshot)) => {
            let text = metrics::render(&snapshot, format);
            ([(header::CONTENT_TYPE, format.content_type())], text).into_response()
        }
        Ok(Err(refused)) => (StatusCode::INTERNAL_SERVER_ERROR, refused.error).into_response(),
        Err(stopped) => (StatusCode::SERVICE_UNAVAILABLE, stopped.to_string()).into_response(),
    }
}

/// The longest wait of `/healthz` for the controller. Health checks usually time out after a
/// second.
const HEALTH_PATIENCE: Duration = Duration::from_millis(700);
/// The time for which the controller may be busy with one thing before it counts as unhealthy.
const BUSY_MAX: Duration = Duration::from_secs(10);

/// Healthy means that the controller answers, or has been busy only for seconds, that the program
/// runs on every interface, and that enforcement outlives the daemon. `pass-all` is a deliberate
/// state: it is reported, but no reason to take the host out of service.
async fn health(State(controller): State<Handle>) -> Response {
    let look = async {
        controller.call(LookAtLinks).await?;
        controller.ask(queries::health).await
    };
    let look: Result<Result<_, Unanswered>, _> = timeout(HEALTH_PATIENCE, look).await;
    let (unenforced, pins, is_open) = match look {
        Ok(Ok(seen)) => seen,
        Ok(Err(_)) => return (StatusCode::SERVICE_UNAVAILABLE, "stopping\n").into_response(),
        Err(_) => return busy(&controller),
    };
    let unenforced = unenforced.iter();
    let unenforced = unenforced.map(|it| format!("not enforced on {}: {}\n", it.interface, it.why));
    let pins = pins.into_iter().map(|error| format!("{error}\n"));
    let ill: String = unenforced.chain(pins).collect();
    if !ill.is_empty() {
        return (StatusCode::SERVICE_UNAVAILABLE, ill).into_response();
    }
    if is_open {
        "pass-all is on: nothing is dropped\n".into_response()
    } else {
        "ok\n".into_response()
    }
}

fn busy(controller: &Handle) -> Response {
    let Some(with) = controller.busy() else {
        return "ok, with many waiting requests\n".into_response();
    };
    if with.lasts() < BUSY_MAX {
        return format!("ok, {with}\n").into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, format!("{with}\n")).into_response()
}
