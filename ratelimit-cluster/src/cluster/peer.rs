//! What is remembered of another node.

use crate::message::Replay;
use crate::statements::{Bucket, CatchUp};

/// Another node.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// Which of its messages were seen.
    pub replay: Option<Replay>,
    /// How much it may state now.
    pub bucket: Bucket,
    /// How many sources it may verify now.
    pub verifying: Bucket,
    /// What of its statements is missing.
    pub catch_up: CatchUp,
}
