//! The result of one check, and its fix.

use serde::Serialize;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Name of the check: `bpf-jit`.
    pub check: &'static str,
    /// The interface that it is about; `None` is this host.
    pub interface: Option<String>,
    pub state: State,
    /// The finding in words.
    pub found: String,
    /// The consequence of a problem.
    pub why: Option<String>,
    /// The command that fixes the problem, if there is one.
    pub fix: Option<String>,
}

/// The state of a finding.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum State {
    /// Correct.
    Ok,
    /// The limiter works, and worse than it could.
    Warning,
    /// The limiter does not work.
    Error,
    /// It could not be seen.
    Unknown,
}

impl State {
    /// The word in JSON.
    pub fn word(self) -> &'static str {
        self.into()
    }
}

impl Finding {
    /// A check without problems.
    pub fn ok(check: &'static str, found: impl Into<String>) -> Self {
        Self {
            check,
            interface: None,
            state: State::Ok,
            found: found.into(),
            why: None,
            fix: None,
        }
    }

    /// Returns a problem that degrades the limiter.
    pub fn warning(check: &'static str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Self::not_ok(State::Warning, check, found, why)
    }

    /// Returns a problem that prevents the limiter from working.
    pub fn error(check: &'static str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Self::not_ok(State::Error, check, found, why)
    }

    /// Returns a finding that could not be determined.
    pub fn unknown(check: &'static str, found: impl Into<String>, why: impl Into<String>) -> Self {
        Self::not_ok(State::Unknown, check, found, why)
    }

    fn not_ok(
        state: State,
        check: &'static str,
        found: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            state,
            why: Some(why.into()),
            ..Self::ok(check, found)
        }
    }

    /// Adds the command that fixes it.
    pub fn fix(self, command: impl Into<String>) -> Self {
        Self {
            fix: Some(command.into()),
            ..self
        }
    }

    /// Names the interface.
    pub fn on(self, interface: &str) -> Self {
        Self {
            interface: Some(interface.to_owned()),
            ..self
        }
    }
}
