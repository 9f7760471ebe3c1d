//! What runs beside the controller and hands it what it finds: events, samples, interfaces, protected addresses, decisions of `CrowdSec`,
//! messages of a cluster.

pub mod cluster;
mod connection;
pub mod crowdsec;
pub mod events;
pub mod links;
pub mod protected;
pub mod samples;
pub mod traffic;
