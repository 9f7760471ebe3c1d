//! `GET /v1/history`: the packet history.

use axum::{Json, Router, extract::State, routing::get};
use ratelimit_core::api::{History, HistoryRequest};

use super::answers::{Failure, Parameters};
use crate::traffic_log::TrafficLog;

/// The route.
pub fn router(log: TrafficLog) -> Router {
    Router::new()
        .route("/v1/history", get(history))
        .with_state(log)
}

/// It does not wait for the controller.
async fn history(
    State(log): State<TrafficLog>,
    Parameters(request): Parameters<HistoryRequest>,
) -> Result<Json<History>, Failure> {
    Ok(Json(log.ask(request).await?))
}
