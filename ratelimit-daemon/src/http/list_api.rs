//! Imports and exports: bodies of text, read and written beside the controller and not by it.

use std::sync::Arc;

use axum::{
    Extension, Json,
    body::Bytes,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use ratelimit_core::{
    api::{ExportRequest, ImportInto, ImportRequest, Progress, Refused},
    lists::{self, Acceptance, Action, ListText, Reading, Vetting},
};

use super::{
    answers::{Failure, Parameters, change},
    chunked::{self, Pieces},
    peer::Peer,
};
use crate::{
    clock,
    control::{Export, Handle, commands::Import, queries},
};

/// Imports a list.
pub async fn import(
    State(controller): State<Handle>,
    Extension(peer): Extension<Peer>,
    Parameters(request): Parameters<ImportRequest>,
    body: Bytes,
) -> Result<Response, Failure> {
    let request = Arc::new(request);
    let its = Arc::clone(&request);
    let read = tokio::task::spawn_blocking(move || parse(&its, &body)).await;
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
