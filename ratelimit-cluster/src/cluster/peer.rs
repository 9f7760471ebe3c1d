//! The state of another node.

use crate::message::Replay;
use crate::statements::{Bucket, CatchUp};
use crate::time::Millis;

#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Whether a message of it arrived since the start.
    pub is_heard: bool,
    /// The messages that were seen.
    pub replay: Option<Replay>,
    /// The remaining budget for statements.
    pub bucket: Bucket,
    /// The missing statements.
    pub catch_up: CatchUp,
    /// The number of its stored parts is 2 to this power, as far as is known.
    pub part_bits: u8,
    /// The last time this node reported a later incarnation of its name to the peer.
    pub told: Option<Millis>,
}
