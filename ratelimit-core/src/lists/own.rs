//! Our own JSON lines: what `rlctl export` writes.
//!
//! ```json
//! {"prefix":"192.0.2.0/24","action":"ban","until":"2026-11-22T09:00:00Z","reason":"scan","author":"root","since":"2026-11-21T09:00:00Z","origin":"manual"}
//! ```
//!
//! All but the prefix may be absent.

use std::borrow::Cow;

use super::{
    json,
    line::{Facts, Line},
    reader::{Reader, Said, problem},
    spamhaus::part,
};

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    for text in reader.text().lines().map(str::trim) {
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        let line: Line<'_> = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(error) if error.is_data() => {
                wrong(text, &error, reader);
                continue;
            }
            Err(error) => {
                json::report(text, &error, reader);
                continue;
            }
        };
        if let Err(problem) = reader.vetting().vet_action(line.action) {
            reader.bad(text, || problem);
            continue;
        }
        let facts = reader.facts(Facts {
            action: line.action,
            author: line.author.map(Cow::into_owned),
            since: line.since,
            origin: line.origin.map(Cow::into_owned),
        });
        let said = Said {
            until: line.until,
            reason: line.reason.as_deref().unwrap_or_default(),
            facts,
            sloppy: false,
        };
        reader.take(part(text, &line.prefix), &line.prefix, said);
    }
}

/// JSON, but not such a line.
fn wrong(text: &str, error: &serde_json::Error, reader: &mut Reader<'_>) {
    let message = error.to_string();
    let message = message
        .split(" at line ")
        .next()
        .unwrap_or_default()
        .to_owned();
    let start = reader.span(text).start + error.column().saturating_sub(1);
    reader.bad_at(start..start + 1, || {
        problem(
            message,
            "write prefix, and where they are known action, until, reason, author, since, origin",
        )
    });
}
