//! Expiry times and the clocks that they refer to.

pub mod lifetime;
pub mod timekeeper;
