//! The target of runtime limits.

use crate::{
    policies::{DEFAULT, destination_name},
    prefix::Prefix,
};

/// The target of runtime limits.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Target {
    /// Sources without a policy of their own: the default policy.
    Default,
    /// The sources of a prefix.
    Sources(Prefix),
    /// All addresses of a prefix together, as destinations.
    Destination(Prefix),
}

impl From<Option<Prefix>> for Target {
    /// The sources of a prefix; of none those of the default policy.
    fn from(prefix: Option<Prefix>) -> Self {
        prefix.map_or(Self::Default, Self::Sources)
    }
}

impl Target {
    /// The prefix, of sources or destinations.
    pub const fn prefix(self) -> Option<Prefix> {
        match self {
            Self::Default => None,
            Self::Sources(prefix) | Self::Destination(prefix) => Some(prefix),
        }
    }

    /// The prefix of sources.
    pub const fn sources(self) -> Option<Prefix> {
        match self {
            Self::Sources(prefix) => Some(prefix),
            Self::Default | Self::Destination(_) => None,
        }
    }

    /// The prefix of destinations.
    pub const fn destination(self) -> Option<Prefix> {
        match self {
            Self::Destination(prefix) => Some(prefix),
            Self::Default | Self::Sources(_) => None,
        }
    }

    /// The name of the policy that such limits are.
    pub fn policy_name(self) -> String {
        match self {
            Self::Default => DEFAULT.to_owned(),
            Self::Sources(prefix) => prefix.to_string(),
            Self::Destination(prefix) => destination_name(prefix),
        }
    }
}
