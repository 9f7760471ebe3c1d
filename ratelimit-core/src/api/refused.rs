//! Why a request was refused.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Code;
use crate::lists::NoList;

/// Reports that a request was refused and changed nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Refused {
    /// The error: what failed, on which object, and why; no trailing full stop. A
    /// [`Problem`](super::Problem) has it as `detail`.
    #[serde(alias = "detail")]
    pub error: String,
    /// A command or configuration line that fixes the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Stable error code for programs; unset if the HTTP status says enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The error including quotes from files, for the log and for root.
    #[serde(skip)]
    pub quoting: Option<String>,
}

impl Refused {
    /// Creates a refusal without a hint.
    pub fn because(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            hint: None,
            code: None,
            quoting: None,
        }
    }

    /// Sets the error code.
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the variant of the error that quotes files.
    pub fn quoting(mut self, quoting: impl Into<String>) -> Self {
        self.quoting = Some(quoting.into());
        self
    }

    /// Returns the error for the log, including quotes from files.
    pub fn in_full(&self) -> &str {
        self.quoting.as_deref().unwrap_or(&self.error)
    }

    /// Replaces the error by the variant that quotes files.
    pub fn for_root(mut self) -> Self {
        self.error = self.quoting.take().unwrap_or(self.error);
        self
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::because(format!("{error:#}"))
    }
}

impl From<NoList> for Refused {
    fn from(error: NoList) -> Self {
        Self::because(error.error)
            .hint(error.hint)
            .code(Code::BadList)
    }
}
