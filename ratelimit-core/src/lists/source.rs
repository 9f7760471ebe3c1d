//! A text that may be a list, and the error if it is not.

use jiff::Timestamp;

/// A text that may be a list.
#[derive(Clone, Copy, Debug)]
pub struct ListText<'a> {
    /// The name of its file, for messages.
    pub name: &'a str,
    /// The content.
    pub bytes: &'a [u8],
    /// When it is read: what ended before is left out.
    pub now: Timestamp,
    /// When it was written: from then on times to live count.
    pub written: Timestamp,
}

/// Why a text is not a list.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{error}")]
pub struct NoList {
    /// What it is.
    pub error: String,
    /// What to do.
    pub hint: &'static str,
}
