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

/// The wall clock.
pub fn wall() -> Timestamp {
    Timestamp::now()
}

/// The wall clock in the local time zone.
pub fn local() -> Zoned {
    Zoned::now()
}
