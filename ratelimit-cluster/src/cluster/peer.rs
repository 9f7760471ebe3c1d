//! What is remembered of another node.

use crate::message::Replay;
use crate::statements::{Bucket, CatchUp};
use crate::time::Millis;

/// Another node.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Whether a message of it came since the start.
    pub is_heard: bool,
    /// Which of its messages were seen.
    pub replay: Option<Replay>,
    /// How much it may state now.
    pub bucket: Bucket,
    /// What of its statements is missing.
    pub catch_up: CatchUp,
    /// When any node told it last that a later incarnation of it is known.
    pub told: Option<Millis>,
}
