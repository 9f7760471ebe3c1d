//! The library behind `ratelimitd`: control plane, datapath, loader, servers, metrics.

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
mod rtnetlink;
pub mod samples;
mod seccomp;
pub mod user;
