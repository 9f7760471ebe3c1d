//! A text that may be a list, and the error if it is not.

use jiff::Timestamp;

/// A text that may be a list.
#[derive(Clone, Copy, Debug)]
pub struct ListText<'a> {
    /// The name of its file, for messages.
    pub name: &'a str,
    /// The content.
    pub bytes: &'a [u8],
    /// The time of reading: entries that expired before it are skipped.
    pub now: Timestamp,
    /// The time of writing, from which times to live count.
    pub written: Timestamp,
}

/// The error of a text that is not a list.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct NoList {
    /// The error message.
    pub error: String,
    /// The remedy.
    pub hint: &'static str,
}
