//! The clocks, which only this module reads.

#![expect(
    clippy::disallowed_methods,
    reason = "this is the module that others ask"
)]

use std::time::Instant;

use jiff::{Timestamp, Zoned};

/// The monotonic clock, to wait by.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// What the wall clock shows.
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// What the wall clock shows, in the time zone of this machine.
pub fn local() -> Zoned {
    Zoned::now()
}
