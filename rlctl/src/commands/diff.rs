//! `rlctl diff` and `rlctl reload --dry-run`: what would be different.

use std::path::Path;

use ratelimit_core::api::{DiffRequest, Reloaded};

use super::{apply, reload};
use crate::{
    client::{Answer, Client},
    failure::Failure,
    output::printable,
    phrase,
    report::Report,
};

/// Compares the configuration in force with a file, or with what a reload would read.
pub fn run(file: Option<&Path>, client: &Client) -> Result<Report, Failure> {
    let tried = file.map(|file| apply::request(file, 0.0)).transpose()?;
    let answer: Answer<Reloaded> = client.post("/v1/diff", &DiffRequest { tried })?;
    let files = printable(&phrase::and(&answer.value.files));
    let text = if answer.value.changes.is_empty() {
        format!("{files}: no changes")
    } else {
        let changes = phrase::count(answer.value.changes.len(), "change", "changes");
        format!("{files}: {changes}{}", reload::lines(&answer.value.changes))
    };
    let text = text + &reload::warnings(&answer.value.warnings);
    Ok(Report::new(answer, text))
}
