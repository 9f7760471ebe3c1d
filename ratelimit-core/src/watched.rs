//! Limits that are watched over time: `[history] watch`.

use std::{fmt, str::FromStr};

use crate::prefix::{Prefix, PrefixError};

/// The name of the node.
const NODE: &str = "node";
/// Prefix of the name of a policy.
const POLICY: &str = "policy:";

/// A watched limit.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Watched {
    /// The limits of all packets.
    Node,
    /// A source, a wider prefix that has limits, or a destination; else each source within.
    Prefix(Prefix),
    /// Each source of the policy of this name.
    Policy(String),
}

impl FromStr for Watched {
    type Err = PrefixError;

    /// `node`, an address, a prefix or `policy:partner`.
    fn from_str(text: &str) -> Result<Self, PrefixError> {
        match (text, text.strip_prefix(POLICY)) {
            (NODE, _) => Ok(Self::Node),
            (_, Some(policy)) => Ok(Self::Policy(policy.to_owned())),
            (prefix, None) => prefix.parse().map(Self::Prefix),
        }
    }
}

impl fmt::Display for Watched {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node => formatter.write_str(NODE),
            Self::Prefix(prefix) => prefix.fmt(formatter),
            Self::Policy(name) => write!(formatter, "{POLICY}{name}"),
        }
    }
}
