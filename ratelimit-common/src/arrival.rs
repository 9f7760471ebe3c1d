//! A packet as its limits see it.

use crate::{Instant, class::ClassSet};

/// When a packet came, how large it is, and what it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// When it came.
    pub at: Instant,
    /// The bytes of its frame, without the checksum.
    pub bytes: u32,
    /// The classes that it belongs to: at least one.
    pub classes: ClassSet,
}
