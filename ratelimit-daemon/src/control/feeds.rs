//! What produces changes by itself. A feed owns what it knows, reads the state and proposes edits.
//!
//! `due` of a feed answers its edits, and changes nothing of the state. It never writes to the kernel or the database: its edits go through
//! [`State::apply`](crate::control::State::apply).

pub mod adopted;
pub mod attacks;
pub mod challenge;
pub mod cluster;
pub mod connection;
pub mod crowdsec;
pub mod detected;
pub mod expiry;
pub mod list_files;
pub mod pass_all;
pub mod trials;
pub mod verified;
