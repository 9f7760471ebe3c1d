//! Limits that are charged together, wherever the file has them.

use super::report::At;
use crate::limit::LimitSpec;

/// Limits that a packet is charged to together: of a policy, of a prefix around its source, of its destination, or of the node.
pub struct Group<'d> {
    /// As a message names it: `[policy.default]`.
    pub title: String,
    /// The limits, in the order of the file.
    pub limits: Vec<&'d At<LimitSpec>>,
}
