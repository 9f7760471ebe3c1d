//! Shared parts of the tests: frames of all shapes, the XDP program in the kernel, and isolated
//! networks.
//!
//! The tests are in `tests/tests`, one file per concept. Those that need root, or a feature of the
//! kernel, report it when they cannot run: see [`skip`].
// A new variant must be handled everywhere.
#![warn(clippy::wildcard_enum_match_arm)]
#![expect(clippy::missing_panics_doc, reason = "a panic is how a test fails")]

use std::time::Duration;

pub mod attached;
pub mod cluster;
pub mod counters;
pub mod cpu;
pub mod crowdsec;
pub mod debian;
pub mod exactness;
pub mod exchange;
pub mod executable;
pub mod fail2ban;
pub mod family;
pub mod flood;
pub mod foreign;
pub mod forged;
pub mod lab;
pub mod mutation;
pub mod packet;
pub mod page;
pub mod pool;
pub mod program;
pub mod progress;
pub mod proof;
pub mod random;
pub mod redis;
pub mod scene;
pub mod sequences;
pub mod service;
pub mod shapes;
pub mod silent;
pub mod skip;
pub mod table;
pub mod waiting;

pub use lab::Lab;
pub use packet::Frame;
pub use program::Program;
pub use scene::Scene;
pub use waiting::{wait_for, wait_until};

/// The longest wait of a test for an event before it fails: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_mins(2);
