//! Output: results to stdout, everything else to stderr, and colour only to a terminal.

use std::io::{self, ErrorKind, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json};

use crate::{exit_code::ExitCode, failure::Failure, report::Report};

/// The style of the heads of tables.
pub const HEAD: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default().bold();
/// The style of important words.
pub const WARNING: Style = AnsiColor::Yellow.on_default().bold();
/// The style of errors, and of packets that are dropped.
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Applies a style to `text`; the streams strip it if colors are off.
pub fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Replaces control characters in foreign text, which a terminal would interpret.
pub fn printable(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Like [`printable`], but keeps line breaks and tabs.
pub fn printable_lines(text: &str) -> String {
    let is_command = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
    text.replace(is_command, "?")
}

/// Prints a piece of raw output; returns `false` if stdout was closed.
pub fn piece(piece: &[u8]) -> Result<bool, Failure> {
    read_on(anstream::stdout().lock().write_all(piece))
}

/// Prints in one of the two forms.
pub struct Output {
    json: bool,
}

impl Output {
    /// Prints for programs, or for people.
    pub fn new(json: bool) -> Self {
        Self { json }
    }

    /// Whether it prints for people.
    pub const fn is_for_people(&self) -> bool {
        !self.json
    }

    /// Prints one of many lines; returns `false` if stdout was closed.
    pub fn line(&self, json: &Value, text: impl FnOnce() -> String) -> Result<bool, Failure> {
        let line = if self.json { json.to_string() } else { text() };
        print(&line)
    }

    /// Shows progress to people.
    pub fn progress(&self, text: &str) {
        if !self.json {
            say(text);
        }
    }

    /// Prints a report, and returns the exit code.
    pub fn report(&self, report: &Report) -> ExitCode {
        let printed = match &report.json {
            Some(json) if self.json => print(&pretty(json)),
            _ if report.text.is_empty() => Ok(true),
            _ => print(&report.text),
        };
        if let Err(failure) = printed {
            return self.failure(&failure);
        }
        if !self.json {
            for note in &report.notes {
                say(&format!("{} {note}", styled(WARNING, "note:")));
            }
        }
        match &report.failure {
            Some(failure) => self.failure(failure),
            None => report.code,
        }
    }

    /// Prints a warning in either format.
    pub fn warning(&self, warning: &str) {
        if self.json {
            say(&json!({ "warning": warning }).to_string());
        } else {
            say(&format!(
                "{} {}",
                styled(WARNING, "warning:"),
                printable(warning)
            ));
        }
    }

    /// Prints a failure, and returns the exit code.
    pub fn failure(&self, failure: &Failure) -> ExitCode {
        let refused = &failure.refused;
        if self.json {
            let mut error = json!(refused);
            if refused.code.is_none() {
                error["code"] = failure.code.name().into();
            }
            say(&pretty(&error));
            return failure.code;
        }
        let error = printable_lines(&refused.error);
        say(&format!("{} {error}", styled(BAD, "error:")));
        if let Some(hint) = refused.hint.as_deref().map(printable_lines) {
            say(&format!("{} {hint}", styled(GOOD, "hint:")));
        }
        failure.code
    }
}

/// One JSON document.
fn pretty(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("answers have string keys and finite numbers")
}

/// Prints a line; returns `false` if stdout was closed.
fn print(text: &str) -> Result<bool, Failure> {
    read_on(write_line(&mut anstream::stdout().lock(), text))
}

/// Returns whether stdout is still open. A reader that stops early is not an error.
fn read_on(written: io::Result<()>) -> Result<bool, Failure> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::refused(format!("cannot write to stdout: {error}"))),
    }
}

/// Writes to stderr; a failure to do so is ignored.
pub fn say(text: &str) {
    let _ = write_line(&mut anstream::stderr().lock(), text);
}

fn write_line(stream: &mut impl Write, text: &str) -> io::Result<()> {
    writeln!(stream, "{}", text.trim_end())?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_cannot_give_commands_to_the_terminal() {
        assert_eq!(
            printable("scan\x1b[2Jner\nroot \u{9b}2J"),
            "scan?[2Jner?root ?2J"
        );
        assert_eq!(printable("Störung"), "Störung");
        assert_eq!(printable_lines("a\n\tb\x1b[2J"), "a\n\tb?[2J");
    }
}
