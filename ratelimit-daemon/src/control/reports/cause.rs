//! The reason entries of the intent are removed.

/// The reason entries are removed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cause<'a> {
    /// The origin explains the change.
    Origin,
    /// A user said so.
    User(&'a str),
    /// The lifetime has ended.
    Time,
    /// The configuration before a trial comes back. Runtime limits that do not fit it become
    /// inactive.
    Rollback,
}
