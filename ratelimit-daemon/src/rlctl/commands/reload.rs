//! `rlctl reload`: the configuration is read again, and what changed is said.

use crate::{
    api::Reloaded,
    rlctl::{
        client::{Answer, Client},
        failure::Failure,
        output::printable,
        phrase,
        report::Report,
    },
};

/// Has the daemon read its configuration again.
pub fn run(client: &Client) -> Result<Report, Failure> {
    let answer: Answer<Reloaded> = client.call("/v1/reload")?;
    let text = sentences(&answer.value);
    Ok(Report::new(answer, text))
}

fn sentences(reloaded: &Reloaded) -> String {
    let files = printable(&phrase::and(&reloaded.files));
    if reloaded.changes.is_empty() {
        return format!("reloaded {files}: nothing is different");
    }
    let changes = phrase::count(reloaded.changes.len(), "change", "changes");
    let lines = reloaded.changes.iter().map(|change| printable(change));
    let lines: Vec<String> = lines.collect();
    format!("reloaded {files}: {changes}\n  {}", lines.join("\n  "))
}
