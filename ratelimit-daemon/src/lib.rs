//! The library behind `ratelimitd`: control plane, datapath, loader, servers, metrics.
// A new variant must be handled everywhere.
#![warn(clippy::wildcard_enum_match_arm)]

pub mod clock;
pub mod cluster;
pub mod control;
pub mod cpus;
pub mod crowdsec;
pub mod daemon;
pub mod datapath;
mod directories;
mod heap;
pub mod http;
pub mod keys;
pub mod links;
pub mod loader;
pub mod lock;
pub mod metrics;
mod private;
pub mod privileges;
pub mod process;
pub mod protected;
pub mod recording;
mod ring;
mod rtnetlink;
mod seccomp;
mod stream;
mod syscall;
mod systemd;
pub mod tasks;
pub mod traffic_log;
pub mod user;
