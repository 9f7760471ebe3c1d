//! How long something holds, and by which clock.

pub mod lifetime;
pub mod timekeeper;
