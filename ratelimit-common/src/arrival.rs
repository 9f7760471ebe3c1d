//! A packet as its limits see it.

use crate::{Instant, Settings, class::ClassSet};

/// A packet for limits: its time, size and classes, and the settings when it was read.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Arrival {
    /// The time of arrival.
    pub at: Instant,
    /// The bytes of its frame, without the checksum; at TCX its [size](crate::frame_size).
    pub bytes: u32,
    /// The classes of the packet; none if no limit uses classes.
    pub classes: ClassSet,
    /// The settings, read once: all tables are read in the generation of these.
    pub settings: Settings,
}
