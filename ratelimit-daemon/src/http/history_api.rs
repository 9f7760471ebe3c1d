//! `GET /v1/history`: what packets came in the last days.

use axum::{
    Json, Router,
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use ratelimit_core::api::HistoryRequest;

use super::answers::{Parameters, answer};
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
) -> Response {
    match log.ask(request).await {
        Ok(history) => Json(history).into_response(),
        Err(refused) => answer(StatusCode::CONFLICT, refused),
    }
}
