//! An error of the API as RFC 9457 has it, with a code that stays while the words may change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::Refused;

/// Media type of a [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// A stable error code for programs.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Code {
    /// Path, query or body are malformed.
    BadRequest,
    /// The user may not control the daemon.
    Forbidden,
    /// The path does not exist.
    NotFound,
    /// The path does not support the method.
    MethodNotAllowed,
    /// The body is too large.
    TooLarge,
    /// The media type of the body is not supported.
    UnsupportedMediaType,
    /// The request is valid but was refused.
    Refused,
    /// The ban covers addresses that this host needs.
    Protected,
    /// The prefix is too wide to ban.
    TooWide,
    /// The list covers a network that this host is connected to.
    ConnectedNetwork,
    /// The list has bad lines or cannot be read.
    BadList,
    /// The configuration is invalid.
    BadConfiguration,
    /// A trial is in progress, or its confirmed configuration was not written to a file.
    Unsettled,
    /// A kernel map is full.
    MapFull,
    /// The daemon is busy or shutting down.
    Unavailable,
    /// An internal error of the daemon.
    Internal,
    /// A code of a newer daemon.
    #[serde(other, skip_serializing)]
    Other,
}

impl Code {
    /// All codes that the daemon sends.
    pub const ALL: &[Self] = match Self::VARIANTS {
        [sent @ .., Self::Other] => sent,
        all => all,
    };

    /// Returns the code as it is sent.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// Returns a title for all errors with the code.
    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request is malformed",
            Self::Forbidden => "The user may not control the daemon",
            Self::NotFound => "The path does not exist",
            Self::MethodNotAllowed => "The path does not support the method",
            Self::TooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The media type of the body is not supported",
            Self::Refused => "The request was refused",
            Self::Protected => "The change would cut off addresses that this host needs",
            Self::TooWide => "The prefix is too wide",
            Self::ConnectedNetwork => "The list covers a connected network",
            Self::BadList => "The list cannot be loaded",
            Self::BadConfiguration => "The configuration is invalid",
            Self::Unsettled => "Confirm or roll back the trial first",
            Self::MapFull => "A kernel map is full",
            Self::Unavailable => "The daemon is unavailable",
            Self::Internal => "The daemon had an internal error",
            Self::Other => "Another error",
        }
    }

    /// Returns the default code for an HTTP status.
    const fn of_status(status: u16) -> Self {
        match status {
            403 => Self::Forbidden,
            404 => Self::NotFound,
            405 => Self::MethodNotAllowed,
            409 => Self::Refused,
            413 => Self::TooLarge,
            415 => Self::UnsupportedMediaType,
            400..=499 => Self::BadRequest,
            503 => Self::Unavailable,
            _ => Self::Internal,
        }
    }
}

/// An error: the request was refused and changed nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Problem {
    /// `urn:ratelimit:problem:` followed by the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// Summary that all errors with the code share.
    pub title: String,
    /// HTTP status of the response.
    pub status: u16,
    /// The error: what failed, on which object, and why; no trailing full stop.
    pub detail: String,
    /// Stable error code for programs.
    pub code: Code,
    /// A command or configuration line that fixes the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// Creates the problem for a response with this status.
    pub fn new(status: u16, refused: Refused) -> Self {
        let code = refused.code.unwrap_or(Code::of_status(status));
        Self {
            kind: format!("urn:ratelimit:problem:{}", code.label()),
            title: code.title().to_owned(),
            status,
            detail: refused.error,
            code,
            hint: refused.hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_becomes_a_problem_that_rlctl_reads() {
        let refused = Refused::because("no").hint("why");
        let problem = serde_json::to_value(Problem::new(409, refused.clone())).unwrap();
        let expected = json!({ "type": "urn:ratelimit:problem:refused",
            "title": "The request was refused", "status": 409,
            "detail": "no", "code": "refused", "hint": "why" });
        assert_eq!(problem, expected);
        let read: Refused = serde_json::from_value(problem).unwrap();
        assert_eq!(read, refused.code(Code::Refused));
    }

    #[test]
    fn codes_are_sent_as_they_are_labelled_and_are_documented() {
        let docs = include_str!("../../../docs/integrations.md");
        for code in Code::ALL {
            let label = code.label();
            assert_eq!(serde_json::to_value(code).unwrap(), label);
            assert!(docs.contains(&format!("| `{label}` |")), "{label}");
        }
        let newer: Code = serde_json::from_value(json!("of-a-newer-daemon")).unwrap();
        assert_eq!(newer, Code::Other);
        let statuses = [400, 403, 404, 405, 409, 413, 415, 422, 500, 503].map(Code::of_status);
        assert!(statuses.iter().all(|code| Code::ALL.contains(code)));
    }
}
