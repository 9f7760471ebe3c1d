//! Reasons to refuse a message, with the node and a hint. Nothing of a refused message is applied.

use super::seal::{MESSAGE_MAX, VERSION};
use crate::bytes::Wrong;
use crate::name::NodeName;
use crate::time::Millis;

/// The reason a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, thiserror::Error)]
#[strum(serialize_all = "kebab-case")]
pub enum Refusal {
    /// It has no valid header.
    #[error(
        "an unknown message: another program writes to this database; give it another database or \
         server"
    )]
    Foreign,
    /// It is longer than a message can be.
    #[error(
        "a message of {bytes} bytes exceeds {MESSAGE_MAX}; check what else writes to the store"
    )]
    Oversized {
        /// Its length.
        bytes: usize,
    },
    /// It is too short to contain its sender.
    #[error(
        "a truncated message: {wrong}; check the store's size limits, and what else writes to it"
    )]
    Cut {
        /// The truncated field.
        wrong: Wrong,
    },
    /// It was modified or truncated, or its sender has another secret.
    #[error(
        "a message from `{node}` has an invalid signature; compare the `secret` of `{node}` with \
         that of this node"
    )]
    WrongSignature {
        /// The alleged sender.
        node: NodeName,
    },
    /// The sender uses another version.
    #[error(
        "`{node}` uses protocol version {version}, this node {VERSION}; install the same release \
         on both"
    )]
    Version {
        /// The sender.
        node: NodeName,
        /// The version.
        version: u8,
    },
    /// It has a valid signature but cannot be parsed.
    #[error(
        "cannot read a message from `{node}`: {wrong}; install the same release on `{node}` and \
         this node"
    )]
    Malformed {
        /// The sender.
        node: NodeName,
        /// The invalid field.
        wrong: Wrong,
    },
    /// The message was already seen, or is too old to decide.
    #[error(
        "message {sequence} of `{node}` arrived twice; if this continues, check what else writes \
         to the store"
    )]
    Replayed {
        /// The sender.
        node: NodeName,
        /// Its sequence number.
        sequence: u64,
    },
    /// It belongs to an earlier incarnation of the node.
    #[error(
        "a message of `{node}` is from before its last restart; ignore this unless it continues"
    )]
    Outlived {
        /// The sender.
        node: NodeName,
    },
    /// Two nodes have the same name.
    #[error("two nodes use the name `{node}`; change `node` in the configuration of one of them")]
    TwoNodes {
        /// The name.
        node: NodeName,
    },
    /// The sender's clock is far from the store's.
    #[error(
        "the clock of `{node}` differs from the store's by {apart} ms (maximum 60000); synchronize \
         it with NTP, or check what replays old messages"
    )]
    ClockApart {
        /// The sender.
        node: NodeName,
        /// The difference, in milliseconds.
        apart: Millis,
    },
    /// The sender was revoked.
    #[error("`{node}` is revoked; stop the node, or run `rlctl cluster revoke {node} --undo`")]
    Revoked {
        /// The sender.
        node: NodeName,
    },
    /// The maximum number of nodes is reached.
    #[error("`{node}` would be one node more than {most}; revoke those that are gone for good")]
    TooMany {
        /// The sender.
        node: NodeName,
        /// The maximum.
        most: usize,
    },
    /// A node reported a period twice, with different counts.
    #[error(
        "`{node}` sent two reports for period {period}; look for a second node with this name, or \
         revoke it"
    )]
    TwoReports {
        /// The sender.
        node: NodeName,
        /// The period.
        period: u64,
    },
    /// A report claims an impossible share.
    #[error(
        "`{node}` reports {what}; compare its limits with those of this node, and revoke it if \
         they are equal"
    )]
    Report {
        /// The sender.
        node: NodeName,
        /// The error.
        what: &'static str,
    },
}

impl Refusal {
    /// Returns the label of the reason in metrics.
    pub fn label(&self) -> &'static str {
        self.into()
    }
}
