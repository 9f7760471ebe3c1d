//! What the tests share: frames of every shape, the XDP program as the kernel runs it, and a network of its own.
//!
//! The tests stand in `tests/tests`, a concept a file. Those that need root, or something of the kernel, say so when they
//! cannot run: see [`skip`].
// A new variant is met at each place that decides by it.
#![warn(clippy::wildcard_enum_match_arm)]
#![expect(clippy::missing_panics_doc, reason = "a panic is how a test fails")]

use std::time::Duration;

pub mod attached;
pub mod cluster;
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

/// How long a test waits for what has to come before it fails: the machine may be busy.
pub const PATIENCE: Duration = Duration::from_mins(2);
