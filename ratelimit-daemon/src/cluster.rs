//! The connection of a node to its cluster: bans of other hosts apply here, with the origin
//! `cluster:NODE`, and those made here apply there.
//!
//! ```text
//! stream of the store -> reader -> Controller (statements of the nodes) -> Outgoing
//!     -> writer -> stream and parts of the store
//! ```
//!
//! The crate `ratelimit-cluster`, which the controller owns, defines the messages and their
//! effects. This module transports them to the store and back. If the store is lost, hangs or sends
//! invalid data, only the connection ends: bans stay.

mod file;
mod key;
mod redis_connection;
mod route;
mod secret;

pub use self::{
    file::read as read_file,
    key::ClusterKey,
    redis_connection::{Link, LinkError, Stream},
    secret::read as read_secret,
};

/// A message, and how it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// The way it arrived: in the stream, or in the stored parts.
    pub arrival: ratelimit_cluster::Arrival,
    /// The message with the signature of its node.
    pub message: Vec<u8>,
}
