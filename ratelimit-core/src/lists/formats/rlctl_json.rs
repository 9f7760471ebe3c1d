//! Our own JSON lines: what `rlctl export` writes.
//!
//! ```json
//! {"prefix":"192.0.2.0/24","action":"ban","until":"2026-11-22T09:00:00Z","reason":"scan",
//!  "by":"root","since":"2026-11-21T09:00:00Z","origin":"manual"}
//! ```
//!
//! All but the prefix may be absent.

use std::borrow::Cow;

use super::json::{self, part};
use crate::lists::{
    export_line::{Facts, Line},
    reader::{Reader, Said},
};

/// The expected fields, for the hint.
const FIELDS: &str =
    "write prefix, and where they are known action, until, reason, by, since, origin";

/// Reads all lines.
pub fn read(reader: &mut Reader<'_>) {
    let lines = reader.text().lines().map(str::trim_start);
    let lines = lines.filter(|line| !line.starts_with('#'));
    for text in lines.flat_map(json::documents) {
        let line: Line<'_> = match serde_json::from_str(text) {
            Ok(line) => line,
            Err(error) => {
                json::report(text, &error, FIELDS, reader);
                continue;
            }
        };
        if let Err(problem) = reader.vetting().vet_action(line.action) {
            reader.report(text, problem);
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
            ..Said::default()
        };
        reader.take(part(text, &line.prefix), &line.prefix, said);
    }
}
