//! `rlctl reload`: the configuration is read again, and what changed is said.

use ratelimit_core::api::{ReloadRequest, Reloaded};

use crate::{
    client::{self, Answer, Client},
    failure::Failure,
    output::{WARNING, printable, printable_lines, styled},
    phrase,
    report::Report,
};

/// Has the daemon read its configuration again.
pub fn run(discard: bool, client: &Client) -> Result<Report, Failure> {
    let request = ReloadRequest { discard };
    let path = if discard {
        client::with_query("/v1/reload", &request)
    } else {
        "/v1/reload".to_owned()
    };
    let answer: Answer<Reloaded> = client.call(&path)?;
    let text = sentences(&answer.value);
    Ok(Report::new(answer, text))
}

fn sentences(reloaded: &Reloaded) -> String {
    let files = printable(&phrase::and(&reloaded.files));
    let warnings = warnings(&reloaded.warnings);
    if reloaded.changes.is_empty() {
        return format!("reloaded {files}: no changes{warnings}");
    }
    let changes = phrase::count(reloaded.changes.len(), "change", "changes");
    let lines = lines(&reloaded.changes);
    format!("reloaded {files}: {changes}{lines}{warnings}")
}

/// What is said of packets that do not come to this host, each on a line of its own.
pub fn warnings(warnings: &[String]) -> String {
    let warnings = warnings.iter();
    let lines = warnings.map(|it| format!("\n{} {}", styled(WARNING, "warning:"), printable(it)));
    lines.collect()
}

/// What is different, each on a line of its own. What is wrong with the file of a list is shown with its line.
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
            sentences(&reloaded),
            "reloaded a.toml: 1 change\n  list x: not taken: l:2:1: no\n    2 | bad\n      | ^^^ write"
        );
    }
}
