//! A node of a cluster: bans that other hosts made hold here, as origin `cluster:NODE`, and those made here hold there.
//!
//! ```text
//! stream of the store -> reader -> Controller (what the nodes state) -> Outgoing -> writer -> stream and parts of the store
//! ```
//!
//! What nodes say to each other, and what of it holds, is the crate `ratelimit-cluster`, which the controller owns. Here is how messages
//! get to the store and back. A store that is gone, hangs or talks nonsense ends the connection, and nothing else: bans stay.

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
    /// From the stream, or from the stored parts.
    pub arrival: ratelimit_cluster::Arrival,
    /// As its node signed it.
    pub message: Vec<u8>,
}
