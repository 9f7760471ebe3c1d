//! Our own JSON lines: what `rlctl export` writes.
//!
//! ```json
//! {"prefix":"192.0.2.0/24","action":"ban","until":"2026-11-22T09:00:00Z","reason":"scan","author":"root","since":"2026-11-21T09:00:00Z","origin":"manual"}
//! ```
//!
//! All but the prefix may be absent.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    json,
    reader::{Reader, Said, problem},
    spamhaus::part,
};

/// What is done with the sources on a list.
#[derive(
    Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Their packets are dropped.
    #[default]
    Ban,
    /// Their packets pass, whatever else is said.
    Allow,
}

impl Action {
    /// Its name.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Ban => "ban",
            Self::Allow => "allow",
        }
    }
}

/// What a line says besides whom, until when and why.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Facts {
    /// What is done with it; `None` where it is not said.
    pub action: Option<Action>,
    /// Who put it there.
    pub author: Option<String>,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Where it comes from: `manual`, `list:NAME`.
    pub origin: Option<String>,
}

/// A line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Line<'t> {
    /// Whom.
    #[serde(borrow)]
    pub prefix: Cow<'t, str>,
    /// What is done with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
    /// Until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'t, str>>,
    /// Who put it there.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub author: Option<Cow<'t, str>>,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// Where it comes from.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Cow<'t, str>>,
}

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
