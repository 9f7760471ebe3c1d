//! What is to be said about a text: where, what is wrong, what to write instead. Three short lines, as rustc does it.

mod place;

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use self::place::Place;
use crate::{prefix::PrefixError, quantity::QuantityError};

/// The most characters of a line that are shown.
const EXCERPT_MAX: usize = 110;
/// The most of them that stand before the place.
const EXCERPT_BEFORE_MAX: usize = 60;

/// What is wrong, and what to write instead.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// What was written, and why it is wrong. No full stop.
    pub message: String,
    /// What to write instead, for people.
    pub hint: String,
    /// What to put in the place of what is marked, for programs; `None` where it takes somebody who knows what was meant.
    pub replacement: Option<String>,
}

/// One problem of a text, and where it is.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Diagnostic {
    /// The file; `None` for the command line.
    pub file: Option<PathBuf>,
    /// The place in the file; `None` where something is absent as a whole.
    #[serde(flatten)]
    pub position: Option<Position>,
    /// What it is.
    #[serde(flatten)]
    pub problem: Problem,
}

/// A place in a file.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Position {
    /// The line, from 1.
    pub line: usize,
    /// The character in the line, from 1.
    pub column: usize,
    /// The character behind what is marked.
    pub end_column: usize,
    #[serde(skip)]
    excerpt: Excerpt,
}

/// The line, as it is shown, and what is marked in it.
#[derive(Clone, Debug, Eq, PartialEq)]
struct Excerpt {
    text: String,
    mark: Range<usize>,
}

impl Problem {
    /// A problem, without characters that move a cursor.
    pub fn new(message: impl AsRef<str>, hint: impl AsRef<str>) -> Self {
        let shown = |text: &str| text.chars().flat_map(visible).collect();
        Self {
            message: shown(message.as_ref()),
            hint: shown(hint.as_ref()),
            replacement: None,
        }
    }

    /// The same, which goes away when this stands in the place.
    pub fn replaced_by(self, replacement: impl Into<Option<String>>) -> Self {
        Self {
            replacement: replacement.into(),
            ..self
        }
    }
}

impl From<PrefixError> for Problem {
    fn from(error: PrefixError) -> Self {
        match error {
            PrefixError::Syntax(text) => Self::new(
                format!("`{text}` is not an IPv4 or IPv6 address or prefix"),
                "write for example 192.0.2.1, 192.0.2.0/24 or 2001:db8::/32",
            ),
            PrefixError::Length { text, family, max } => Self::new(
                format!("`{text}` is longer than {family} addresses are"),
                format!("write a length up to /{max}"),
            ),
            PrefixError::HostBits {
                text,
                network,
                address,
            } => Self::new(
                format!("host bits are set in `{text}`"),
                format!("write {network} or {address}"),
            )
            .replaced_by(format!("\"{network}\"")),
        }
    }
}

impl From<QuantityError> for Problem {
    fn from(error: QuantityError) -> Self {
        Self::new(error.problem(), error.remedy())
    }
}

impl Diagnostic {
    /// What is wrong and where, for those who may not read the file: without anything that is quoted of it.
    pub fn unquoted(&self) -> String {
        let file = self.file.as_ref().map(|file| file.display().to_string());
        let file = file.unwrap_or_default();
        let message = unquoted(&self.problem.message);
        match &self.position {
            Some(Position { line, column, .. }) => format!("{file}:{line}:{column}: {message}"),
            None => format!("{file}: {message}"),
        }
    }

    /// A problem of a file as a whole.
    pub fn of_file(file: &Path, problem: Problem) -> Self {
        Self {
            file: Some(file.to_owned()),
            position: None,
            problem,
        }
    }
}

impl Position {
    /// The place of `span`, in bytes, in `text`.
    pub fn new(text: &str, span: &Range<usize>) -> Self {
        let start = text.floor_char_boundary(span.start);
        let (before, behind) = text.split_at(start);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let line_length = behind.find('\n').unwrap_or(behind.len());
        let line = text[line_start..start + line_length].trim_end_matches('\r');
        let place = Place::default().at(text, start);
        let column = place.column - 1;
        let marked_end = text.floor_char_boundary(span.end.min(line_start + line.len()));
        let marked = text.get(start..marked_end).unwrap_or_default();
        let marked = marked.chars().count();
        Self {
            line: place.line,
            column: place.column,
            end_column: place.column + marked,
            excerpt: Excerpt::new(line, column..column + marked.max(1)),
        }
    }
}

impl Excerpt {
    /// `mark` counts characters of `line`.
    fn new(line: &str, mark: Range<usize>) -> Self {
        let length = line.chars().count();
        let skipped = if length > EXCERPT_MAX {
            mark.start.saturating_sub(EXCERPT_BEFORE_MAX)
        } else {
            0
        };
        let shown = line.chars().skip(skipped).take(EXCERPT_MAX);
        let mut text: String = shown.clone().flat_map(visible).collect();
        let column = |index: usize| {
            let before = shown.clone().take(index - skipped);
            before.flat_map(visible).count()
        };
        let end = mark.end.min(skipped + EXCERPT_MAX);
        // Behind the end of the line too there is a column to mark.
        let beyond = end.saturating_sub(length.max(mark.start));
        let mut mark = column(mark.start)..column(end) + beyond;
        if skipped + EXCERPT_MAX < length {
            text.push('…');
        }
        if skipped > 0 {
            text.insert(0, '…');
            mark = mark.start + 1..mark.end + 1;
        }
        Self { text, mark }
    }
}

/// The characters that show a character. A tab would move the mark, a control character the cursor, and what nobody sees is written
/// as `\u{200b}`.
fn visible(c: char) -> impl Iterator<Item = char> {
    let (shown, escaped) = match c {
        '\t' => (Some(' '), None),
        c if is_invisible(c) => (None, Some(c.escape_unicode())),
        c if c.is_control() => (Some(char::REPLACEMENT_CHARACTER), None),
        c => (Some(c), None),
    };
    shown.into_iter().chain(escaped.into_iter().flatten())
}

/// Whether a character takes no room, or looks like a space and is another one.
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}'
        | '\u{205f}'..='\u{206f}' | '\u{3000}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
}

/// A message without what stands between its first and its last quotation mark: what is quoted may have some of its own.
pub fn unquoted(message: &str) -> String {
    let marks = ['`', '"'];
    let (Some(first), Some(last)) = (message.find(marks), message.rfind(marks)) else {
        return message.to_owned();
    };
    let behind = if last > first {
        &message[last + 1..]
    } else {
        ""
    };
    format!("{}`…`{behind}", &message[..first])
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(formatter, "{}:", file.display())?;
        }
        if let Some(position) = &self.position {
            write!(formatter, "{}:{}:", position.line, position.column)?;
        }
        let space = if self.file.is_some() { " " } else { "" };
        let Problem { message, hint, .. } = &self.problem;
        writeln!(formatter, "{space}{message}")?;
        let Some(Position { line, excerpt, .. }) = &self.position else {
            return write!(formatter, "hint: {hint}");
        };
        let gutter = " ".repeat(line.to_string().len());
        let margin = " ".repeat(excerpt.mark.start);
        let mark = "^".repeat(excerpt.mark.len());
        writeln!(formatter, "{line} | {}", excerpt.text)?;
        write!(formatter, "{gutter} | {margin}{mark} {hint}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unquoted_a_problem_says_nothing_of_the_file_but_its_place() {
        for (message, expected) in [
            ("`root:$6$x` is not an address", "`…` is not an address"),
            ("`a`b` is not `c\"d` at all", "`…` at all"),
            (
                "invalid type: string \"secret\", expected a table",
                "invalid type: string `…`, expected a table",
            ),
            ("an `open mark", "an `…`"),
            ("expected a value", "expected a value"),
        ] {
            let text = "key = secret";
            let diagnostic = Diagnostic {
                position: Some(Position::new(text, &(6..12))),
                ..Diagnostic::of_file(Path::new("/a/b"), Problem::new(message, "write secret"))
            };
            assert_eq!(diagnostic.unquoted(), format!("/a/b:1:7: {expected}"));
        }
    }
}
