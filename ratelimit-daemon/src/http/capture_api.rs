//! `POST /v1/capture` answers a pcapng file that grows; `DELETE` ends it.

use axum::{
    Extension,
    extract::State,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
};
use ratelimit_core::api::{CaptureRequest, Refused};

use super::{
    answers::{Body, answer},
    peer::Peer,
};
use crate::{
    control::{Handle, questions},
    recording::{Recorder, Wanted},
    stream::Streams,
};

pub async fn begin(
    State(controller): State<Handle>,
    Extension(recorder): Extension<Recorder>,
    Extension(streams): Extension<Streams>,
    Extension(peer): Extension<Peer>,
    Body(request): Body<CaptureRequest>,
) -> Response {
    let interfaces = match controller.ask(questions::interface_names).await {
        Ok(interfaces) => interfaces,
        Err(stopped) => return unavailable(stopped.to_string()),
    };
    let Ok((writer, body)) = streams.begin() else {
        return unavailable("too many events and captures are being followed already");
    };
    let wanted = Wanted {
        request,
        author: peer.author.to_string(),
        interfaces,
        writer,
    };
    match recorder.begin(wanted).await {
        Ok(()) => ([(CONTENT_TYPE, "application/vnd.tcpdump.pcap")], body).into_response(),
        Err(refused) => answer(StatusCode::CONFLICT, refused),
    }
}

pub async fn end(Extension(recorder): Extension<Recorder>) -> Response {
    if recorder.end().await {
        return StatusCode::NO_CONTENT.into_response();
    }
    answer(StatusCode::CONFLICT, Refused::because("no capture runs"))
}

fn unavailable(error: impl Into<String>) -> Response {
    answer(StatusCode::SERVICE_UNAVAILABLE, Refused::because(error))
}
