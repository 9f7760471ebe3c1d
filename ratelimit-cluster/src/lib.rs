//! The state that many hosts share, bans and budgets, as a pure state machine.
//!
//! [`Cluster`] is the one object. Time, counts and messages come in as arguments; messages, changes
//! of lists and shares come out. It never reads a clock, opens a socket, starts a thread or draws a
//! random number.
//!
//! - [`statements`]: bans, allows and revocations as a set that every host merges to the same
//!   result.
//! - [`budget`]: how hosts divide a limit without a coordinator, and never above it.
//! - [`message`]: how both are written, signed and refused.
// A new variant must be handled everywhere.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod budget;
mod bytes;
pub mod cluster;
pub mod cluster_clock;
pub mod key;
pub mod message;
pub mod name;
pub mod statements;
pub mod time;

pub use cluster::{Arrival, Cluster, Config, Denied, Host, Memory, Outgoing, Received};
pub use key::Key;
pub use name::NodeName;
pub use time::{Millis, Now, Stamp};
