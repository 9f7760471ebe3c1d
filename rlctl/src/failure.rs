//! A failed command: the message for the user and the exit code for scripts.

use ratelimit_core::api::Refused;

use crate::exit_code::ExitCode;

/// The error of a failed command.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// For scripts.
    pub code: ExitCode,
    /// For people.
    pub refused: Refused,
}

impl Failure {
    /// A failure without a hint.
    pub fn new(code: ExitCode, error: impl Into<String>) -> Self {
        let refused = Refused::because(error);
        Self { code, refused }
    }

    /// Creates an error about the command line.
    pub fn usage(error: impl Into<String>) -> Self {
        Self::new(ExitCode::Usage, error)
    }

    /// The request was refused.
    pub fn refused(error: impl Into<String>) -> Self {
        Self::new(ExitCode::Refused, error)
    }

    /// Converts an error of clap for `--json`: its first line, and the rest as the hint.
    pub fn from_clap(error: &clap::Error) -> Self {
        let text = error.to_string();
        let text = text.strip_prefix("error: ").unwrap_or(&text);
        let (error, hint) = text.split_once("\n\n").unwrap_or((text, ""));
        let failure = Self::usage(error.trim_end());
        match hint.trim() {
            "" => failure,
            hint => failure.hint(hint),
        }
    }

    /// The failure, with what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.refused.hint = Some(hint.into());
        self
    }
}
