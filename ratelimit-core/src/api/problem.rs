//! An error of the API as RFC 9457 has it, with a code that stays while the words may change.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use super::Refused;

/// The media type of [`Problem`].
pub const PROBLEM_JSON: &str = "application/problem+json";

/// What kind of error it is, for programs.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Code {
    /// Path, query or body are not understood.
    BadRequest,
    /// The user may not command the daemon.
    Forbidden,
    /// There is no such path.
    NotFound,
    /// The path takes other methods.
    MethodNotAllowed,
    /// The body is too large.
    TooLarge,
    /// The body is of another media type.
    UnsupportedMediaType,
    /// The request is understood, and is not carried out.
    Refused,
    /// A ban would meet what this host needs.
    Protected,
    /// A prefix is wider than what is banned.
    TooWide,
    /// A list covers a network that this host is connected to.
    ConnectedNetwork,
    /// A list cannot be read, or has bad lines.
    BadList,
    /// A configuration has errors.
    BadConfiguration,
    /// A configuration is on trial, or was confirmed and is in no file.
    Unsettled,
    /// A map of the kernel has no room.
    MapFull,
    /// The daemon is busy or stops.
    Unavailable,
    /// The daemon failed.
    Internal,
    /// It is of a newer daemon.
    #[serde(other, skip_serializing)]
    Other,
}

impl Code {
    /// Those that the daemon sends.
    pub const ALL: &[Self] = match Self::VARIANTS {
        [sent @ .., Self::Other] => sent,
        all => all,
    };

    /// As it is sent.
    pub fn label(self) -> &'static str {
        self.into()
    }

    /// What all errors of the kind have in common.
    pub const fn title(self) -> &'static str {
        match self {
            Self::BadRequest => "The request is not understood",
            Self::Forbidden => "The user may not command the daemon",
            Self::NotFound => "There is no such path",
            Self::MethodNotAllowed => "The path takes other methods",
            Self::TooLarge => "The body is too large",
            Self::UnsupportedMediaType => "The body is of another media type",
            Self::Refused => "The request is not carried out",
            Self::Protected => "A ban would meet what this host needs",
            Self::TooWide => "A prefix is too wide",
            Self::ConnectedNetwork => "A list covers a connected network",
            Self::BadList => "A list is not taken",
            Self::BadConfiguration => "A configuration has errors",
            Self::Unsettled => "The configuration that was tried comes first",
            Self::MapFull => "A map of the kernel has no room",
            Self::Unavailable => "The daemon does not answer now",
            Self::Internal => "The daemon failed",
            Self::Other => "Another error",
        }
    }

    /// That of an error of which only the status is known.
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

/// Why a request was not carried out; nothing of it was.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Problem {
    /// `urn:ratelimit:problem:` and the code.
    #[serde(rename = "type")]
    pub kind: String,
    /// What all errors with the code have in common.
    pub title: String,
    /// The status of the answer.
    pub status: u16,
    /// What was tried, on what, why it failed. No full stop.
    pub detail: String,
    /// What kind of error it is, for programs.
    pub code: Code,
    /// The same as `detail`, for clients of version 0.1.
    pub error: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    /// The problem of an answer with this status.
    pub fn new(status: u16, refused: Refused) -> Self {
        let code = refused.code.unwrap_or(Code::of_status(status));
        Self {
            kind: format!("urn:ratelimit:problem:{}", code.label()),
            title: code.title().to_owned(),
            status,
            detail: refused.error.clone(),
            code,
            error: refused.error,
            hint: refused.hint,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refusal_becomes_a_problem_that_older_clients_understand() {
        let refused = Refused::because("no").hint("why");
        let problem = serde_json::to_value(Problem::new(409, refused.clone())).unwrap();
        let expected = json!({ "type": "urn:ratelimit:problem:refused", "title": "The request is not carried out", "status": 409,
            "detail": "no", "code": "refused", "error": "no", "hint": "why" });
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
