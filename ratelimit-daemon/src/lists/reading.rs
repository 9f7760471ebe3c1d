//! What came of reading a list.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;

use super::{
    format::Format,
    own::Facts,
    reasons::{ReasonId, Reasons},
};
use crate::{config::Diagnostic, prefix::Prefix};

/// A prefix of a list.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry {
    /// Whom.
    pub prefix: Prefix,
    /// Until when; `None` is for as long as the list has it.
    pub until: Option<Timestamp>,
    /// Why.
    pub reason: ReasonId,
    /// What its line says besides: an index into [`Reading::facts`].
    pub facts: u32,
}

/// A list that was read.
#[derive(Clone, Debug)]
pub struct Reading {
    /// How it was written.
    pub format: Format,
    /// The entries, in the order of the text.
    pub entries: Vec<Entry>,
    /// Why they are there.
    pub reasons: Reasons,
    /// What lines say besides. The first says nothing, and is that of all other formats than our own.
    pub facts: Vec<Facts>,
    /// The lines that are wrong.
    pub bad: BadLines,
    /// How many entries were left out for good reason, by that reason: `captcha, not a ban`.
    pub skipped: BTreeMap<String, usize>,
}

/// The lines of a list that are wrong: the first ones, and how many there are.
#[derive(Clone, Debug, Default)]
pub struct BadLines {
    /// The first of them, each with its place and what to write.
    pub shown: Vec<Diagnostic>,
    /// All of them.
    pub count: usize,
}

impl fmt::Display for BadLines {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.shown.iter().enumerate() {
            let separator = if index == 0 { "" } else { "\n" };
            write!(formatter, "{separator}{line}")?;
        }
        match self.count - self.shown.len() {
            0 => Ok(()),
            1 => formatter.write_str("\nand 1 more bad line"),
            more => write!(formatter, "\nand {more} more bad lines"),
        }
    }
}
