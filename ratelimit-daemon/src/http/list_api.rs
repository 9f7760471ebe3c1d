//! Imports and exports: bodies of text, read and written beside the controller and not by it.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::{FromRequestParts, State},
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use ratelimit_core::{
    api::{ExportRequest, ImportInto, ImportRequest, Progress, Refused},
    lists::{self, Acceptance, Action, ListText, Reading, Vetting},
};
use tokio::sync::{Semaphore, SemaphorePermit};

use super::{
    answers::{Failure, Parameters, change},
    chunked::{self, Pieces},
    peer::Peer,
};
use crate::{
    clock,
    control::{Export, Handle, commands::Import, queries},
    heap,
};

/// The number of bodies that are read at a time, each of up to [`lists::BYTES_MAX`].
const BODIES_MAX: usize = 2;
static OF_ROOT: Semaphore = Semaphore::const_new(BODIES_MAX);
static OF_OTHERS: Semaphore = Semaphore::const_new(BODIES_MAX);

/// Permits to read a body. Whoever gets it last waits for those before.
pub struct BodyPermit(
    #[expect(dead_code, reason = "released when dropped")] SemaphorePermit<'static>,
);

impl<S: Sync> FromRequestParts<S> for BodyPermit {
    type Rejection = Failure;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Failure> {
        let is_root = parts.extensions.get().is_some_and(Peer::is_root);
        let bodies = if is_root { &OF_ROOT } else { &OF_OTHERS };
        let permit = bodies.acquire().await;
        permit
            .map(Self)
            .map_err(|error| Failure::unavailable(error.to_string()))
    }
}

impl Drop for BodyPermit {
    fn drop(&mut self) {
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn_blocking(heap::give_back);
        }
    }
}

/// Imports a list.
pub async fn import(
    State(controller): State<Handle>,
    Extension(peer): Extension<Peer>,
    permit: BodyPermit,
    Parameters(request): Parameters<ImportRequest>,
    body: Bytes,
) -> Result<Response, Failure> {
    let request = Arc::new(request);
    let its = Arc::clone(&request);
    let read = tokio::task::spawn_blocking(move || parse(&its, &body)).await;
    drop(permit);
    let read = read.map_err(|error| {
        let refused = Refused::because(format!("reading the list: {error}"));
        Failure(StatusCode::INTERNAL_SERVER_ERROR, refused)
    })?;
    let import = Import {
        request,
        reading: read?,
        author: peer.author,
    };
    change(&controller, import).await
}

/// Tells how far an import is, without waiting for the controller.
pub async fn progress(State(controller): State<Handle>) -> Json<Progress> {
    Json(controller.progress())
}

fn parse(request: &ImportRequest, body: &[u8]) -> Result<Reading, Refused> {
    let name = request.name.as_deref().unwrap_or("stdin");
    let now = clock::wall();
    let source = ListText {
        name,
        bytes: body,
        now,
        written: now,
    };
    let vetting = Vetting {
        force: request.force,
        action: match request.into {
            ImportInto::Bans => Some(Action::Ban),
            ImportInto::Allows => Some(Action::Allow),
            ImportInto::List => Some(request.action),
            ImportInto::Origins => None,
        },
        min_count: request.min_count,
        json_path: request.json_path.clone(),
    };
    let reading = lists::read(source, &vetting)?;
    let acceptance = Acceptance {
        skip_bad: request.skip_bad,
        allow_empty: request.allow_empty,
    };
    acceptance.check(name, &reading)?;
    Ok(reading)
}

/// Exports entries.
pub async fn export(
    State(controller): State<Handle>,
    Parameters(request): Parameters<ExportRequest>,
) -> Result<Response, Failure> {
    let export = controller.ask(move |it| queries::export(&it.state.intent, &request));
    let export = export.await??;
    let (pieces, body) = chunked::channel();
    tokio::spawn(write(controller, export, pieces));
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], body).into_response())
}

/// Writes all of an export, unless the client or the controller goes away before its end.
async fn write(controller: Handle, export: Export, pieces: Pieces) {
    if export.has_bans && !write_bans(&controller, &export, &pieces).await {
        return;
    }
    for lines in export.others() {
        if !pieces.write(lines).await {
            return;
        }
    }
    pieces.end().await;
}

/// Writes the bans, and returns whether all were written.
async fn write_bans(controller: &Handle, export: &Export, pieces: &Pieces) -> bool {
    let mut behind = None;
    loop {
        let bans = controller.ask(move |it| queries::some_bans(&it.state.intent, behind.as_ref()));
        let Ok(bans) = bans.await else {
            return false;
        };
        let Some((prefix, origin, _)) = bans.last() else {
            return true;
        };
        behind = Some((*prefix, origin.clone()));
        if !pieces.write(export.of_bans(&bans)).await {
            return false;
        }
    }
}
