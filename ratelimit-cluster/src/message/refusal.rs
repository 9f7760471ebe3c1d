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
        "a message of something else: it does not begin as ours do; give whoever else writes there another database or server"
    )]
    Foreign,
    /// It is longer than a message can be.
    #[error(
        "a message of {bytes} bytes, where {MESSAGE_MAX} is the most; look who else writes to the store"
    )]
    Oversized {
        /// Its length.
        bytes: usize,
    },
    /// It ends too early to tell who sent it.
    #[error(
        "a message is cut: {wrong}; look at the store's limits on lengths, and who else writes to it"
    )]
    Cut {
        /// Where it ends.
        wrong: Wrong,
    },
    /// It was changed or cut, or its sender has another secret.
    #[error(
        "a message in the name of `{node}` is not signed with this cluster's secret, or was cut; compare `secret` of `{node}` with that of this node"
    )]
    WrongSignature {
        /// Who is said to have sent it.
        node: NodeName,
    },
    /// Its sender speaks another version.
    #[error(
        "`{node}` speaks version {version}, this node version {VERSION}; bring both to the same release"
    )]
    Version {
        /// Who sent it.
        node: NodeName,
        /// Its version.
        version: u8,
    },
    /// It is signed, and yet cannot be read.
    #[error(
        "a message of `{node}` cannot be read: {wrong}; bring `{node}` and this node to the same release"
    )]
    Malformed {
        /// Who sent it.
        node: NodeName,
        /// What cannot be read.
        wrong: Wrong,
    },
    /// It was seen before, or is older than what is remembered.
    #[error(
        "message {sequence} of `{node}` came before; nothing to do, unless it goes on: then look who else writes to the store"
    )]
    Replayed {
        /// Who sent it.
        node: NodeName,
        /// Which one.
        sequence: u64,
    },
    /// It is of a life of the node that is over.
    #[error(
        "a message of `{node}` is from before its last start; nothing to do, unless it goes on"
    )]
    Outlived {
        /// Who sent it.
        node: NodeName,
    },
    /// Two nodes have one name.
    #[error(
        "two nodes call themselves `{node}`; give one of them another `node` in its configuration"
    )]
    TwoNodes {
        /// Their name.
        node: NodeName,
    },
    /// The clock of the sender is far from the store's.
    #[error(
        "the clock of `{node}` is {apart} ms from the store's, where 60000 is the most; let NTP set it, or look who stores old messages again"
    )]
    ClockApart {
        /// Who sent it.
        node: NodeName,
        /// How far.
        apart: Millis,
    },
    /// Its sender was revoked.
    #[error(
        "`{node}` is revoked; `rlctl cluster revoke {node} --undo` lifts that, or stop the node"
    )]
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
        "`{node}` has two reports of period {period}; look for a second node with this name, else revoke it"
    )]
    TwoReports {
        /// Who sent it.
        node: NodeName,
        /// Which period.
        period: u64,
    },
    /// A share that nobody may have.
    #[error(
        "`{node}` reports {what}; compare its limits with those of this node, and revoke it where they are the same"
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
