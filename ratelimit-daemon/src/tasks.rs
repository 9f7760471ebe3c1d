//! Tasks that run next to the controller and send it their findings: events, samples, interfaces,
//! protected addresses, decisions of `CrowdSec`, messages of a cluster.

pub mod cluster;
mod connection;
pub mod crowdsec;
pub mod events;
pub mod keys;
pub mod links;
pub mod protected;
pub mod samples;
pub mod tcp_connections;
pub mod traffic;
