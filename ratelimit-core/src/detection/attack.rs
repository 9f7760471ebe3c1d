//! An attack that was found.

use std::{fmt, net::IpAddr, str::FromStr};

use ratelimit_common::Instant;

use super::Kind;
use crate::prefix::Prefix;

/// An attack that is going on, or has just ended.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attack {
    /// The kind.
    pub kind: Kind,
    /// The target or source of the attack.
    pub subject: Subject,
    /// The most packets in a second so far.
    pub packets_per_second: u64,
    /// The highest number of sources in a second so far. The real number may be higher.
    pub sources: u64,
    /// The end of the second in which it was found.
    pub since: Instant,
    /// The end of the last second in which the attack was seen.
    pub last: Instant,
}

/// The target or the source that identifies an attack.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// A target.
    Target {
        /// The address.
        address: IpAddr,
        /// The port that a reflection comes from.
        source_port: Option<u16>,
    },
    /// The source.
    Source(Prefix),
}

impl FromStr for Subject {
    type Err = UnknownSubject;

    /// Reads what [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, UnknownSubject> {
        let target = |address: &str, source_port| {
            let address = address.parse().map_err(|_| UnknownSubject)?;
            Ok(Self::Target {
                address,
                source_port,
            })
        };
        if let Some(address) = text.strip_prefix("to ") {
            return target(address, None);
        }
        let from = text.strip_prefix("from ").ok_or(UnknownSubject)?;
        match from
            .strip_prefix("port ")
            .and_then(|it| it.split_once(" to "))
        {
            Some((port, address)) => {
                target(address, Some(port.parse().map_err(|_| UnknownSubject)?))
            }
            None => from.parse().map(Self::Source).map_err(|_| UnknownSubject),
        }
    }
}

/// No attack is known by this.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("neither `to ADDRESS`, `from port PORT to ADDRESS` nor `from PREFIX`")]
pub struct UnknownSubject;

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
