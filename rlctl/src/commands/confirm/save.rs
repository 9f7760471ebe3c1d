//! The configuration file of the daemon, replaced by one that was confirmed.
//!
//! It is `rlctl` that writes it: the daemon has given up the right to.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ratelimit_core::api::{Attempt, DiffRequest, Reloaded};

use crate::{
    client::{Answer, Client},
    commands::apply,
    failure::Failure,
    output::printable,
    replace_file::replace,
};

/// Writes the confirmed configuration to the file of the daemon, and returns the path of the
/// previous one.
pub fn over_main(attempt: &Attempt, client: &Client) -> Result<PathBuf, Failure> {
    let tried = apply::request(Path::new(&attempt.file), 0.0)?;
    let text = tried.text.clone();
    let request = DiffRequest { tried: Some(tried) };
    let answer: Answer<Reloaded> = client.post("/v1/diff", &request)?;
    if !answer.value.changes.is_empty() {
        let file = printable(&attempt.file);
        return Err(
            Failure::refused(format!("{file} changed since the trial began"))
                .hint(format!("see `rlctl reload --dry-run {file}`")),
        );
    }
    let written = fs::canonicalize(&attempt.main).and_then(|main| replace(&main, &text));
    written.map_err(|error| Failure::refused(error.to_string()))
}
