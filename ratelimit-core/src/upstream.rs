//! Bans as routes of a BGP speaker, so that routers in front of a full link drop their packets.

mod routes;

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
    str::FromStr,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use strum::{IntoStaticStr, VariantArray};

pub use self::routes::{Candidate, Routes};
use crate::{diagnostic::Problem, ip_family::IpFamily, origin::Origin, prefix::Prefix};

/// Settings of `[upstream]`.
#[derive(Clone, Debug, Eq, PartialEq, SmartDefault)]
pub struct Upstream {
    /// The next hop of IPv4 routes; `None` is the address of the BGP speaker.
    pub next_hop: Option<Ipv4Addr>,
    /// The next hop of IPv6 routes; `None` is the address of the BGP speaker.
    pub next_hop_v6: Option<Ipv6Addr>,
    /// The communities of the routes.
    #[default(vec![Community::BLACKHOLE])]
    pub communities: Vec<Community>,
    /// The most routes.
    #[default = 1000]
    pub routes_max: usize,
    /// A route stays at least this long if its ban expires.
    #[default(Duration::from_mins(1))]
    pub for_min: Duration,
    /// The widest IPv4 prefix of a route.
    #[default = 24]
    pub ipv4_prefix_min: u8,
    /// The widest IPv6 prefix of a route.
    #[default = 48]
    pub ipv6_prefix_min: u8,
    /// The origins of bans that become routes.
    #[default(vec![BanOrigin::Manual, BanOrigin::Automatic])]
    pub origins: Vec<BanOrigin>,
}

impl Upstream {
    /// Whether a ban of this prefix and origin may become a route.
    pub fn accepts(&self, prefix: Prefix, origin: &Origin) -> bool {
        let widest = match IpFamily::of(prefix.address()) {
            IpFamily::V4 => self.ipv4_prefix_min,
            IpFamily::V6 => self.ipv6_prefix_min,
        };
        prefix.len() >= widest
            && BanOrigin::of(origin).is_some_and(|origin| self.origins.contains(&origin))
    }
}

/// Origins of bans, without their names.
#[derive(Clone, Copy, Debug, Eq, IntoStaticStr, PartialEq, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum BanOrigin {
    /// `rlctl ban`, with and without `--force`.
    Manual,
    /// A ban rule of a policy, detection, or folding.
    Automatic,
    /// Another program, such as fail2ban.
    Program,
    /// The `CrowdSec` local API.
    Crowdsec,
    /// Another node of the cluster.
    Cluster,
}

impl BanOrigin {
    /// `None` for lists, whose entries are too many to be routes.
    const fn of(origin: &Origin) -> Option<Self> {
        match origin {
            Origin::Manual | Origin::Forced => Some(Self::Manual),
            Origin::Automatic | Origin::Folded => Some(Self::Automatic),
            Origin::Program(_) => Some(Self::Program),
            Origin::Crowdsec => Some(Self::Crowdsec),
            Origin::Cluster(_) => Some(Self::Cluster),
            Origin::Config | Origin::List(_) => None,
        }
    }
}

/// A community (RFC 1997).
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Community(u16, u16);

impl Community {
    /// `BLACKHOLE` (RFC 7999).
    const BLACKHOLE: Self = Self(65535, 666);
}

/// The error of an invalid community.
#[derive(Clone, Debug, thiserror::Error)]
#[error("`{0}` is not a community")]
pub struct InvalidCommunity(String);

impl FromStr for Community {
    type Err = InvalidCommunity;

    fn from_str(text: &str) -> Result<Self, InvalidCommunity> {
        let halves = text.split_once(':');
        let halves = halves.and_then(|(high, low)| Some((high.parse().ok()?, low.parse().ok()?)));
        let (high, low) = halves.ok_or_else(|| InvalidCommunity(text.to_owned()))?;
        Ok(Self(high, low))
    }
}

impl fmt::Display for Community {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}", self.0, self.1)
    }
}

from_text!(Community);

impl From<InvalidCommunity> for Problem {
    fn from(error: InvalidCommunity) -> Self {
        let hint = "write two numbers up to 65535, such as \"65535:666\"";
        Self::new(error.to_string(), hint)
    }
}
