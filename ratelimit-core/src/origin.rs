//! The origin of a ban, an allow or a limit.

use std::{fmt, str::FromStr, sync::Arc};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Origin of an entry. A prefix may have one ban per origin; the one that expires last is enforced.
#[derive(
    Clone, Debug, Deserialize, Eq, Hash, JsonSchema, Ord, PartialEq, PartialOrd, Serialize,
)]
#[serde(try_from = "String", into = "String")]
pub enum Origin {
    /// The configuration file.
    Config,
    /// A command such as `rlctl ban`.
    Manual,
    /// A command with `--force`, which also applies to protected addresses.
    Forced,
    /// A ban rule of a policy, or detection.
    Automatic,
    /// Folding: enough sources of the prefix are banned.
    Folded,
    /// The list with this name.
    List(Arc<str>),
    /// Another program, such as a fail2ban jail.
    Program(Arc<str>),
    /// The `CrowdSec` local API.
    Crowdsec,
    /// The cluster node with this name.
    Cluster(Arc<str>),
}

/// The error of an invalid origin.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "unknown origin `{0}`: use `config`, `manual`, `forced`, `automatic`, `folded`, \
     `list:NAME`, `program:NAME`, `crowdsec` or `cluster:NODE`"
)]
pub struct UnknownOrigin(String);

impl Origin {
    /// The first origin in the order.
    pub const FIRST: Self = Self::Config;

    /// The origin of entries of this list.
    pub fn list(name: &str) -> Self {
        Self::List(name.into())
    }

    /// The origin of entries that this program set.
    pub fn program(name: &str) -> Self {
        Self::Program(name.into())
    }

    /// The origin of entries that this node published.
    pub fn cluster(node: &str) -> Self {
        Self::Cluster(node.into())
    }

    /// The origin of entries that an author set at runtime. User names contain no colon, so
    /// `cluster:NODE` is a node.
    pub fn of_author(author: &str) -> Self {
        match author.split_once(':') {
            Some(("cluster", node)) if !node.is_empty() => Self::cluster(node),
            _ => Self::Manual,
        }
    }

    /// The name of the list that it is.
    pub fn list_name(&self) -> Option<&str> {
        if let Self::List(name) = self {
            Some(name)
        } else {
            None
        }
    }

    /// Whether the other nodes of a cluster are sent it: not what each of them has from elsewhere,
    /// or was sent itself.
    pub fn is_shared(&self) -> bool {
        match self {
            Self::Manual | Self::Forced | Self::Automatic | Self::Program(_) => true,
            Self::Config | Self::Folded | Self::List(_) | Self::Crowdsec | Self::Cluster(_) => {
                false
            }
        }
    }

    /// Whether no operator requested the ban here. Such a ban may be evicted when the table is
    /// full, and others can cause any number of them.
    pub fn is_unrequested(&self) -> bool {
        matches!(
            self,
            Self::Automatic | Self::Folded | Self::Program(_) | Self::Crowdsec | Self::Cluster(_)
        )
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config => formatter.pad("config"),
            Self::Manual => formatter.pad("manual"),
            Self::Forced => formatter.pad("forced"),
            Self::Automatic => formatter.pad("automatic"),
            Self::Folded => formatter.pad("folded"),
            Self::List(name) => formatter.pad(&format!("list:{name}")),
            Self::Program(name) => formatter.pad(&format!("program:{name}")),
            Self::Crowdsec => formatter.pad("crowdsec"),
            Self::Cluster(node) => formatter.pad(&format!("cluster:{node}")),
        }
    }
}

impl FromStr for Origin {
    type Err = UnknownOrigin;

    fn from_str(text: &str) -> Result<Self, UnknownOrigin> {
        match text {
            "config" => Ok(Self::Config),
            "manual" => Ok(Self::Manual),
            "forced" => Ok(Self::Forced),
            // The name before 1.0.
            "automatic" | "detected" => Ok(Self::Automatic),
            "folded" => Ok(Self::Folded),
            "crowdsec" => Ok(Self::Crowdsec),
            _ => match text.split_once(':') {
                Some(("list", name)) if !name.is_empty() => Ok(Self::list(name)),
                Some(("cluster", node)) if !node.is_empty() => Ok(Self::cluster(node)),
                Some(("program", name)) if !name.is_empty() => Ok(Self::program(name)),
                _ => Err(UnknownOrigin(text.to_owned())),
            },
        }
    }
}

from_text!(Origin);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_origin_is_read_as_it_is_written() {
        for text in [
            "config",
            "manual",
            "forced",
            "automatic",
            "folded",
            "list:spamhaus",
            "program:fail2ban/sshd",
            "crowdsec",
            "cluster:edge-2",
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn the_name_from_before_1_0_is_read() {
        assert_eq!("detected".parse(), Ok(Origin::Automatic));
    }

    #[test]
    fn an_author_is_a_user_or_a_node() {
        assert_eq!(
            Origin::of_author("cluster:edge-2"),
            Origin::cluster("edge-2")
        );
        for user in ["root", "", "cluster", "cluster:", "list:a"] {
            assert_eq!(Origin::of_author(user), Origin::Manual);
        }
    }

    #[test]
    fn an_invalid_origin_is_refused() {
        for text in [
            "", "list:", "list", "program:", "cluster", "cluster:", "Manual",
        ] {
            let error = text.parse::<Origin>().unwrap_err().to_string();
            assert!(error.contains(&format!("`{text}`")), "{error}");
        }
    }
}
