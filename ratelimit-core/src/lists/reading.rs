//! The result of reading a list.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;

use super::{
    export_line::Facts,
    format::Format,
    reasons::{ReasonId, Reasons},
};
use crate::{diagnostic::Diagnostic, prefix::Prefix};

/// A prefix of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// The prefix.
    pub prefix: Prefix,
    /// The expiry; `None` is for as long as the list has it.
    pub until: Option<Timestamp>,
    /// The reason.
    pub reason: ReasonId,
    /// Other data of its line: an index into [`Reading::facts`].
    pub facts: u32,
}

/// A list that was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The format of the text.
    pub format: Format,
    /// The entries, in the order of the text.
    pub entries: Vec<Entry>,
    /// The reasons of the entries.
    pub reasons: Reasons,
    /// Other data of lines. The first is empty, and used by all formats except our own.
    pub facts: Vec<Facts>,
    /// The lines that are wrong.
    pub bad: BadLines,
    /// The number of entries that were skipped for a good reason, by reason: `captcha, not a ban`.
    pub skipped: BTreeMap<String, usize>,
    /// Choices for ambiguous texts: the column or key that was read.
    pub notes: Vec<String>,
    /// The time at which it was last downloaded or found unchanged; `None` for files that are not
    /// downloaded.
    pub fetched: Option<Timestamp>,
}

/// The lines of a list that are wrong, and how many there are.
#[derive(Clone, Debug, Default)]
pub struct BadLines {
    /// The first ten, each with its text and what to write.
    pub shown: Vec<Diagnostic>,
    /// The number of all problems.
    pub count: usize,
}

impl BadLines {
    /// Formats the shown problems without quotes from the list, for users who may not read it.
    pub fn unquoted(&self) -> String {
        let mut lines: Vec<_> = self.shown.iter().map(Diagnostic::unquoted).collect();
        lines.extend(more(self.count - lines.len()));
        lines.join("\n")
    }
}

impl fmt::Display for BadLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut lines: Vec<_> = self.shown.iter().map(ToString::to_string).collect();
        lines.extend(more(self.count - lines.len()));
        formatter.write_str(&lines.join("\n"))
    }
}

/// Formats the number of further problems, if any.
fn more(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("and 1 more bad line".to_owned()),
        count => Some(format!("and {count} more bad lines")),
    }
}
