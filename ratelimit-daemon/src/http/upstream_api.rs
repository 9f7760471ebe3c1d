//! `GET /v1/upstream`: the routes for a BGP speaker, all of them as a line of JSON after each
//! change.

use axum::{
    Extension,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use ratelimit_core::api::UpstreamRoutes;
use tokio::sync::watch::Receiver;

use super::{answers::Failure, event_api::TOO_MANY};
use crate::{
    control::{Handle, queries},
    stream::{Streams, Writer},
};

pub async fn routes(
    State(controller): State<Handle>,
    Extension(streams): Extension<Streams>,
) -> Result<Response, Failure> {
    let routes = controller.ask(queries::upstream_routes).await??;
    let Some((writer, body)) = streams.begin() else {
        return Err(Failure::unavailable(TOO_MANY));
    };
    tokio::spawn(async move {
        tokio::select! {
            () = writer.ended() => {}
            () = write(&writer, routes) => {}
        }
    });
    Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
}

async fn write(writer: &Writer, mut routes: Receiver<Option<UpstreamRoutes>>) {
    routes.mark_changed();
    while routes.changed().await.is_ok() {
        let Some(now) = routes.borrow_and_update().clone() else {
            continue;
        };
        let mut line = serde_json::to_vec(&now).expect("routes have string keys");
        line.push(b'\n');
        if !writer.write(line.into()).await {
            return;
        }
    }
}
