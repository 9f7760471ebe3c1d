//! The library behind `ratelimitd` and `rlctl`: configuration, control plane, datapath, metrics.

pub mod api;
pub mod capabilities;
pub mod capture;
pub mod class;
pub mod class_tables;
pub mod clock;
pub mod config;
pub mod control;
pub mod daemon;
pub mod datapath;
pub mod events;
pub mod exposition;
pub mod http;
pub mod limit;
pub mod lists;
pub mod lock;
pub mod memory_tables;
pub mod metrics;
pub mod origin;
pub mod prefix;
pub mod protected;
pub mod quantity;
pub mod recording;
pub mod rlctl;
pub mod simulation;
