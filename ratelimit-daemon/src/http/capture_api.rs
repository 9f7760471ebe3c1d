//! `POST /v1/capture` returns a growing pcapng file; `DELETE` ends it.

use axum::{
    Extension,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use ratelimit_core::api::{CaptureRequest, Refused};

use super::{
    answers::{Body, Failure},
    event_api::TOO_MANY,
    peer::Peer,
};
use crate::{
    control::{Handle, queries},
    recording::{Recorder, Wanted},
    stream::Streams,
};

pub async fn begin(
    State(controller): State<Handle>,
    Extension(recorder): Extension<Recorder>,
    Extension(streams): Extension<Streams>,
    Extension(peer): Extension<Peer>,
    Body(request): Body<CaptureRequest>,
) -> Result<Response, Failure> {
    let interfaces = controller
        .ask(|it| queries::interface_names(&it.state))
        .await?;
    let Some((writer, body)) = streams.begin() else {
        return Err(Failure::unavailable(TOO_MANY));
    };
    let wanted = Wanted {
        request,
        author: peer.author.to_string(),
        interfaces,
        writer,
    };
    recorder.begin(wanted).await?;
    Ok(([(CONTENT_TYPE, "application/vnd.tcpdump.pcap")], body).into_response())
}

pub async fn end(Extension(recorder): Extension<Recorder>) -> Result<StatusCode, Failure> {
    if recorder.end().await {
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Refused::because("no capture is running").into())
}
