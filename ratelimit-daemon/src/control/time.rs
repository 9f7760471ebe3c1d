//! How long something is in force, and by which clock.

pub mod lifetime;
pub mod timekeeper;
