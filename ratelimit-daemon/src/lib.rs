//! The library behind `ratelimitd` and `rlctl`: configuration, control plane, datapath, metrics.

pub mod api;
pub mod config;
pub mod limit;
pub mod prefix;
pub mod quantity;
pub mod rlctl;
