//! A command that was carried out: its answer for programs and for people.

use serde_json::Value;

use crate::{client::Answer, exit_code::ExitCode, failure::Failure};

/// The result of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The answer of the daemon, for `--json`; `None` where the result was printed as it came.
    pub json: Option<Value>,
    /// The result, for people.
    pub text: String,
    /// Notes for people.
    pub notes: Vec<String>,
    /// The exit code, without a `failure`.
    pub code: ExitCode,
    /// The reason it counts as refused although there is an answer.
    pub failure: Option<Failure>,
}

impl Report {
    /// The report of an answer which `text` phrases.
    pub fn new<T>(answer: Answer<T>, text: impl Into<String>) -> Self {
        Self::from_json(answer.json, text)
    }

    /// The report of a result that no daemon gave.
    pub fn from_json(json: Value, text: impl Into<String>) -> Self {
        Self {
            json: Some(json),
            text: text.into(),
            notes: Vec::new(),
            code: ExitCode::Done,
            failure: None,
        }
    }

    /// The report of a result that was printed as it came.
    pub fn printed() -> Self {
        Self {
            json: None,
            ..Self::from_json(Value::Null, "")
        }
    }

    /// The report, with something good to know.
    pub fn note(self, note: impl Into<String>) -> Self {
        self.notes([note.into()])
    }

    /// Adds several notes.
    pub fn notes(mut self, notes: impl IntoIterator<Item = String>) -> Self {
        self.notes.extend(notes);
        self
    }
}
