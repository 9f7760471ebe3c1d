//! Expiry times and the clocks that they refer to.

pub mod ban_clock;
pub mod expiry;
