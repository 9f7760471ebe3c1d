//! The routes for a BGP speaker.

use std::net::{Ipv4Addr, Ipv6Addr};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{prefix::Prefix, upstream::Community};

/// The routes that a BGP speaker announces.
#[derive(Clone, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct UpstreamRoutes {
    /// Next hop of IPv4 routes; unset is the address of the speaker.
    pub next_hop: Option<Ipv4Addr>,
    /// Next hop of IPv6 routes; unset is the address of the speaker.
    pub next_hop_v6: Option<Ipv6Addr>,
    /// Communities of the routes.
    pub communities: Vec<Community>,
    /// All routes, sorted.
    pub routes: Vec<Prefix>,
    /// Number of bans without a route because `routes_max` is reached.
    pub left_out: usize,
}
