//! `GET /v1/events`: stored events, and with `follow` new ones, as lines of JSON.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse, Response},
};
use ratelimit_core::api::{CursorNow, Event, EventRequest, What};
use tokio::sync::broadcast::{
    Receiver,
    error::{RecvError, TryRecvError},
};

use super::answers::{Failure, Parameters};
use crate::{
    clock,
    control::{Handle, queries},
    stream::{Streams, Writer},
};

/// The bytes per write.
const PIECE_BYTES: usize = 1 << 16;
/// The error if too many streams are open.
pub const TOO_MANY: &str = "too many open event streams and captures";

pub async fn events(
    State(controller): State<Handle>,
    Extension(streams): Extension<Streams>,
    Parameters(query): Parameters<EventRequest>,
) -> Result<Response, Failure> {
    let (kept, now, coming) = controller.ask(|it| queries::events(&it.state)).await?;
    let is_new = |event: &Event| query.after.is_none_or(|after| !after.has_seen(event, &now));
    let is_wanted = |event: &&Arc<Event>| is_new(event) && query.has(event);
    let mut kept: Vec<_> = kept.iter().filter(is_wanted).collect();
    let count = query.count.unwrap_or(usize::MAX);
    let first = kept.len().saturating_sub(count);
    let kept = &mut kept[first..];
    if query.after.is_none() {
        // Drops from while no daemon ran are recorded after the start. A follower with a cursor
        // gets them as they were recorded.
        kept.sort_by_key(|event| event.at);
    }
    let kept: Vec<u8> = kept.iter().flat_map(|event| line(event)).collect();
    let lines = [(CONTENT_TYPE, "application/x-ndjson")];
    if !query.follow {
        return Ok((lines, kept).into_response());
    }
    let Some((writer, body)) = streams.begin() else {
        return Err(Failure::unavailable(TOO_MANY));
    };
    tokio::spawn(async move { follow(&writer, kept.into(), coming, query).await });
    Ok((lines, body).into_response())
}

/// `GET /v1/events/cursor`
pub async fn cursor(State(controller): State<Handle>) -> Result<Json<CursorNow>, Failure> {
    let (_, cursor, _) = controller.ask(|it| queries::events(&it.state)).await?;
    Ok(Json(CursorNow { cursor }))
}

/// Writes stored and new events until the client or the daemon ends the stream.
async fn follow(
    writer: &Writer,
    kept: Bytes,
    mut coming: Receiver<Arc<Event>>,
    query: EventRequest,
) {
    let write = async {
        let mut piece = kept;
        while writer.write(piece).await {
            match next(&mut coming, &query).await {
                Some(lines) => piece = lines.into(),
                None => return,
            }
        }
    };
    tokio::select! {
        () = writer.ended() => {}
        () = write => {}
    }
}

/// The lines of the next event and of those that came with it; `None` when none can come any more.
async fn next(coming: &mut Receiver<Arc<Event>>, query: &EventRequest) -> Option<Vec<u8>> {
    let mut lines = loop {
        match coming.recv().await {
            Ok(event) if query.has(&event) => break line(&event),
            Ok(_) => {}
            Err(RecvError::Lagged(count)) => break lost(count),
            Err(RecvError::Closed) => return None,
        }
    };
    while lines.len() < PIECE_BYTES {
        match coming.try_recv() {
            Ok(event) if query.has(&event) => lines.extend(line(&event)),
            Ok(_) => {}
            Err(TryRecvError::Lagged(count)) => lines.extend(lost(count)),
            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
        }
    }
    Some(lines)
}

/// Lost events have no number: those before and after show which are missing.
fn lost(count: u64) -> Vec<u8> {
    line(&Event {
        number: 0,
        cursor: None,
        at: clock::wall(),
        what: What::Lost { count },
    })
}

fn line(event: &Event) -> Vec<u8> {
    let mut line = serde_json::to_vec(event).expect("events have string keys and finite numbers");
    line.push(b'\n');
    line
}
