//! The reason entries of the intent are removed.

/// The reason entries are removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause<'a> {
    /// Their origin says all that is known.
    Origin,
    /// A user said so.
    User(&'a str),
    /// Their time is over.
    Time,
    /// The configuration before a trial comes back. Runtime limits that it has no place for are
    /// suspended.
    Rollback,
}
