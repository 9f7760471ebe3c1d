//! A packet as its limits see it.

use crate::{Instant, Settings, class::ClassSet};

/// When a packet came, how large it is, what it is, and what held when it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// When it came.
    pub at: Instant,
    /// The bytes of its frame, without the checksum.
    pub bytes: u32,
    /// The classes that it belongs to; none where nobody asks.
    pub classes: ClassSet,
    /// What holds for all packets, read once: everything that is asked about the packet is asked of this generation.
    pub settings: Settings,
}
