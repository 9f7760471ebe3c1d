//! An attack that was found.

use std::{fmt, net::IpAddr};

use ratelimit_common::Instant;

use super::Kind;
use crate::prefix::Prefix;

/// An attack that is going on, or has just ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attack {
    /// What it is.
    pub kind: Kind,
    /// What it goes against, or where it comes from.
    pub subject: Subject,
    /// The most packets in a second so far.
    pub packets_per_second: u64,
    /// The most sources in a second so far, or more.
    pub sources: u64,
    /// The end of the second in which it was found.
    pub since: Instant,
    /// The end of the last second in which it was going on.
    pub last: Instant,
}

/// By what an attack is known.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// What it goes against.
    Target {
        /// The address.
        address: IpAddr,
        /// The port that a reflection comes from.
        source_port: Option<u16>,
    },
    /// Where it comes from.
    Source(Prefix),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Target {
                address,
                source_port: None,
            } => write!(f, "to {address}"),
            Self::Target {
                address,
                source_port: Some(port),
            } => write!(f, "from port {port} to {address}"),
            Self::Source(prefix) => write!(f, "from {prefix}"),
        }
    }
}
