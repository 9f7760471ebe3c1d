//! A problem in a text: position, message and correction, in three short lines like rustc.

mod line_counter;

use std::{
    fmt,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::Serialize;

pub use self::line_counter::LineCounter;
use crate::{prefix::PrefixError, quantity::QuantityError};

/// The most characters of a line that are shown.
const EXCERPT_MAX: usize = 110;
/// Maximum length of the excerpt before the position.
const EXCERPT_BEFORE_MAX: usize = 60;

/// A problem and its correction.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
pub struct Problem {
    /// The error, without a full stop.
    pub message: String,
    /// A correction, for people.
    pub hint: String,
    /// Replacement of the marked text, for programs; `None` if it requires a decision.
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
    /// The problem.
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

/// The quoted line and the marked part.
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

    /// Sets the replacement of the marked text.
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
    /// Returns position and message for users who may not read the file, without quotes.
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
        let place = LineCounter::default().at(text, start);
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

/// The characters that represent a character. Tabs would shift the mark, control characters the
/// cursor, and invisible characters are written as `\u{200b}`.
fn visible(c: char) -> impl Iterator<Item = char> {
    let (shown, escaped) = match c {
        '\t' => (Some(' '), None),
        c if is_invisible(c) => (None, Some(c.escape_unicode())),
        c if c.is_control() => (Some(char::REPLACEMENT_CHARACTER), None),
        c => (Some(c), None),
    };
    shown.into_iter().chain(escaped.into_iter().flatten())
}

/// Whether a character is invisible, or looks like a space without being one.
pub fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{2000}'..='\u{200f}'
            | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}' | '\u{3000}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
    )
}

/// Removes the text between the first and the last quotation mark of a message; quotes may be
/// nested.
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
