//! `rlctl reload`: reads the configuration again, or with `--dry-run` shows what that would change.

use std::path::Path;

use ratelimit_core::api::{DiffRequest, ReloadRequest, Reloaded};

use super::apply;
use crate::{
    client::{self, Answer, Client},
    failure::Failure,
    output::{WARNING, printable, printable_lines, styled},
    phrase,
    report::Report,
};

/// Compares the running configuration with a file, or with what a reload would read.
pub fn compare(file: Option<&Path>, client: &Client) -> Result<Report, Failure> {
    let tried = file.map(|file| apply::request(file, 0.0)).transpose()?;
    let answer: Answer<Reloaded> = client.post("/v1/diff", &DiffRequest { tried })?;
    let text = sentences("", &answer.value);
    Ok(Report::new(answer, text))
}

/// Has the daemon read its configuration again.
pub fn run(request: ReloadRequest, client: &Client) -> Result<Report, Failure> {
    let path = if request == ReloadRequest::default() {
        "/v1/reload".to_owned()
    } else {
        client::with_query("/v1/reload", &request)
    };
    let answer: Answer<Reloaded> = client.call(&path)?;
    let text = sentences("reloaded ", &answer.value);
    Ok(Report::new(answer, text))
}

fn sentences(verb: &str, reloaded: &Reloaded) -> String {
    let files = printable(&phrase::and(&reloaded.files));
    let changes = match reloaded.changes.len() {
        0 => "no changes".to_owned(),
        count => phrase::count(count, "change", "changes"),
    };
    let (lines, warnings) = (lines(&reloaded.changes), warnings(&reloaded.warnings));
    format!("{verb}{files}: {changes}{lines}{warnings}")
}

/// Warnings about packets that never reach this host, each on its own line.
pub fn warnings(warnings: &[String]) -> String {
    let warnings = warnings.iter();
    let lines = warnings.map(|it| format!("\n{} {}", styled(WARNING, "warning:"), printable(it)));
    lines.collect()
}

/// The changes, each on its own line. An error in the file of a list is quoted with its line.
pub fn lines(changes: &[String]) -> String {
    let mut text = String::new();
    for change in changes {
        let change = printable_lines(change).replace('\n', "\n    ");
        text.push_str("\n  ");
        text.push_str(&change);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_list_stands_in_lines_of_its_own() {
        let reloaded = Reloaded {
            files: vec!["a.toml".to_owned()],
            changes: vec!["list x: not taken: l:2:1: no\n2 | bad\n  | ^^^ write".to_owned()],
            warnings: vec![],
        };
        assert_eq!(
            sentences("reloaded ", &reloaded),
            "reloaded a.toml: 1 change\n  \
             list x: not taken: l:2:1: no\n    \
             2 | bad\n      \
             | ^^^ write"
        );
    }
}
