//! The library behind `ratelimitd` and `rlctl`: configuration, control plane, datapath, metrics.

pub mod clock;
pub mod control;
pub mod cpus;
pub mod crowdsec;
pub mod daemon;
pub mod datapath;
mod directories;
pub mod events;
pub mod http;
pub mod links;
pub mod loader;
pub mod lock;
mod memory;
pub mod metrics;
mod private;
pub mod privileges;
pub mod protected;
pub mod recording;
pub mod rlctl;
mod rtnetlink;
pub mod samples;
mod seccomp;
pub mod simulation;
pub mod user;
