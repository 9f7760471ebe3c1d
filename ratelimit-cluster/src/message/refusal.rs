//! Why a message is refused: which node, and what to do. Nothing of a refused message is applied.

use super::seal::{MESSAGE_MAX, VERSION};
use crate::bytes::Wrong;
use crate::name::NodeName;
use crate::time::Millis;

/// Why a message is refused.
#[derive(Clone, Debug, PartialEq, Eq, strum::IntoStaticStr, thiserror::Error)]
#[strum(serialize_all = "kebab-case")]
pub enum Refusal {
    /// It does not begin as a message does.
    #[error(
        "an unknown message: another program writes to this database; give it another database or server"
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
    /// It ends too early to tell who sent it.
    #[error(
        "a truncated message: {wrong}; check the store's size limits, and what else writes to it"
    )]
    Cut {
        /// Where it ends.
        wrong: Wrong,
    },
    /// It was changed or cut, or its sender has another secret.
    #[error(
        "a message from `{node}` has an invalid signature; compare the `secret` of `{node}` with that of this node"
    )]
    WrongSignature {
        /// Who is said to have sent it.
        node: NodeName,
    },
    /// Its sender speaks another version.
    #[error(
        "`{node}` uses protocol version {version}, this node {VERSION}; install the same release on both"
    )]
    Version {
        /// Who sent it.
        node: NodeName,
        /// Its version.
        version: u8,
    },
    /// It is signed, and yet cannot be read.
    #[error(
        "cannot read a message from `{node}`: {wrong}; install the same release on `{node}` and this node"
    )]
    Malformed {
        /// Who sent it.
        node: NodeName,
        /// What cannot be read.
        wrong: Wrong,
    },
    /// It was seen before, or is older than what is remembered.
    #[error(
        "message {sequence} of `{node}` arrived twice; if this continues, check what else writes to the store"
    )]
    Replayed {
        /// Who sent it.
        node: NodeName,
        /// Which one.
        sequence: u64,
    },
    /// It is of a life of the node that is over.
    #[error(
        "a message of `{node}` is from before its last restart; ignore this unless it continues"
    )]
    Outlived {
        /// Who sent it.
        node: NodeName,
    },
    /// Two nodes have one name.
    #[error("two nodes use the name `{node}`; change `node` in the configuration of one of them")]
    TwoNodes {
        /// Their name.
        node: NodeName,
    },
    /// The clock of the sender is far from the store's.
    #[error(
        "the clock of `{node}` differs from the store's by {apart} ms (maximum 60000); synchronize it with NTP, or check what replays old messages"
    )]
    ClockApart {
        /// Who sent it.
        node: NodeName,
        /// How far.
        apart: Millis,
    },
    /// Its sender was revoked.
    #[error("`{node}` is revoked; stop the node, or run `rlctl cluster revoke {node} --undo`")]
    Revoked {
        /// Who sent it.
        node: NodeName,
    },
    /// There are as many nodes as there can be.
    #[error("`{node}` would be one node more than {most}; revoke those that are gone for good")]
    TooMany {
        /// Who sent it.
        node: NodeName,
        /// How many there can be.
        most: usize,
    },
    /// A node reports a period twice, with different counts.
    #[error(
        "`{node}` sent two reports for period {period}; look for a second node with this name, or revoke it"
    )]
    TwoReports {
        /// Who sent it.
        node: NodeName,
        /// Which period.
        period: u64,
    },
    /// A share that nobody may have.
    #[error(
        "`{node}` reports {what}; compare its limits with those of this node, and revoke it if they are equal"
    )]
    Report {
        /// Who sent it.
        node: NodeName,
        /// What is wrong.
        what: &'static str,
    },
}

impl Refusal {
    /// The reason as the label of a metric.
    pub fn label(&self) -> &'static str {
        self.into()
    }
}
