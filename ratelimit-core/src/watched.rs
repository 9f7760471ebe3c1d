//! Whose limits are watched over time: `[history] watch`.

use std::{fmt, str::FromStr};

use crate::prefix::{Prefix, PrefixError};

/// How the node is named.
const NODE: &str = "node";

/// Whose level is kept in the history.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Watched {
    /// The limits of all packets.
    Node,
    /// A source, a wider prefix that has limits, or a destination.
    Prefix(Prefix),
}

impl FromStr for Watched {
    type Err = PrefixError;

    /// `node`, an address or a prefix.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match text {
            NODE => Ok(Self::Node),
            prefix => prefix.parse().map(Self::Prefix),
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => formatter.write_str(NODE),
            Self::Prefix(prefix) => prefix.fmt(formatter),
        }
    }
}
