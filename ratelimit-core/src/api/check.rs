//! What would happen to a packet of an address.

use std::{collections::BTreeMap, net::IpAddr};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Ban, Covering, Event, Limited, Listed, NewSourcesStatus, PacketRequest, ShareView,
    SourceChallenge, StrikesView, Unenforced, What,
};
use crate::{geo::Place, limit::LimitSpec, prefix::Prefix};

/// The verdict for a packet of an address, if it arrived now.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Check {
    /// The address asked about.
    pub address: IpAddr,
    /// The source prefix that the address is counted under.
    pub source: Prefix,
    /// The country and network of the address, if a list selects them from a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// Properties of the packet given in the request; empty for a packet without a class.
    #[serde(default)]
    pub packet: PacketRequest,
    /// The verdict: `pass`, `drop` or `observe`.
    pub action: String,
    /// Reason of the verdict, named as in the metrics.
    pub reason: String,
    /// The limit that refuses the packet, and when it accepts one again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusedBy>,
    /// Classes with a different verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassVerdict>,
    /// Interfaces with a different verdict; empty if the request names an interface, or if all
    /// interfaces have a rule of their own and come to the same verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceVerdict>,
    /// Prefix of the rule that decides; unset for the default policy.
    pub rule: Option<Prefix>,
    /// When the deciding ban, allow or runtime limit expires; unset if it is permanent.
    pub until: Option<Timestamp>,
    /// The deciding ban, if there is one.
    pub ban: Option<Ban>,
    /// The reason the address is protected from all but forced bans; unset if it is not protected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    /// Lists that contain the address.
    #[serde(default)]
    pub lists: Vec<Listed>,
    /// The policy of the source.
    pub policy: String,
    /// The additional limit of a source that took part in an attack.
    #[serde(default)]
    pub limited: Option<Limited>,
    /// Whether the limits of the source are a dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observe: bool,
    /// Whether nothing is dropped because the limits, the named interface or the whole host is a
    /// dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// Usage of the limits of the source.
    pub limits: Vec<LimitState>,
    /// Limits of the enclosing prefixes, narrowest first, and of the node.
    #[serde(default)]
    pub wider: Vec<WiderLimits>,
    /// All entries that cover the address in order of precedence: allows, bans, policies.
    #[serde(default)]
    pub covering: Vec<Covering>,
    /// Sampled drops of the source, grouped by similarity, latest first.
    #[serde(default)]
    pub last_drops: Vec<SeenDrops>,
    /// How close the source is to a ban; unset if its policy does not ban.
    #[serde(default)]
    pub strikes: Option<StrikesView>,
    /// Tunnels whose packets are counted for the inner source instead of the outer one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<String>,
    /// Pinned programs that receive passed packets, by interface.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next: BTreeMap<String, String>,
    /// The budget for new sources, if the verdict depends on whether this source is within it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sources: Option<NewSourcesStatus>,
    /// The challenge, if one is configured and the source is not exempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<SourceChallenge>,
    /// Packets of the source that limits refused, as far as they are remembered.
    pub refused_packets: u64,
    /// When a limit last refused a packet of the source.
    pub refused_last: Option<Timestamp>,
    /// Interfaces that are not protected now: packets pass there whatever the verdict.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<Unenforced>,
}

/// The verdict for packets of a class.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClassVerdict {
    /// The class, as named by the limit.
    pub class: String,
    /// The verdict: `pass`, `drop` or `observe`.
    pub action: String,
    /// Reason of the verdict, named as in the metrics.
    pub reason: String,
    /// The limit that refuses the packets, and when it accepts one again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusedBy>,
    /// Number of sampled drops in the class.
    #[serde(default)]
    pub drops_seen: usize,
}

/// The verdict on an interface that has its own policy or is a dry run.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InterfaceVerdict {
    /// Name of the interface.
    pub interface: String,
    /// Policy for sources on the interface that no prefix selects.
    pub policy: String,
    /// The verdict: `pass`, `drop` or `observe`.
    pub action: String,
    /// Reason of the verdict, named as in the metrics.
    pub reason: String,
}

/// The limit that refuses a packet.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RefusedBy {
    /// Definition of the limit.
    pub limit: LimitSpec,
    /// Seconds until the limit accepts a packet, if none arrives before; unset if several prefixes
    /// have such a limit.
    pub room_in_seconds: Option<f64>,
}

/// A group of similar sampled drops.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SeenDrops {
    /// The latest drop of the group.
    #[serde(flatten)]
    pub last: Event,
    /// Number of drops in the group.
    pub count: usize,
    /// When the first drop of the group happened.
    pub since: Timestamp,
}

impl SeenDrops {
    /// Adds a drop that is newer than all in `seen` to the group it is similar to. Returns `false`
    /// if the event is not a drop.
    pub fn add(seen: &mut Vec<Self>, event: &Event) -> bool {
        let What::Drop(dropped) = &event.what else {
            return false;
        };
        let is_like =
            |seen: &Self| matches!(&seen.last.what, What::Drop(it) if it.is_like(dropped));
        let before = seen.iter().position(is_like);
        let before = before.map(|index| seen.remove(index));
        let (count, since) = before.map_or((0, event.at), |before| (before.count, before.since));
        seen.push(Self {
            last: event.clone(),
            count: count + 1,
            since,
        });
        true
    }
}

/// Limits that sources share.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WiderLimits {
    /// The prefix or source that has the limits; unset for the node, an interface or a destination.
    pub prefix: Option<Prefix>,
    /// The destination that has the limits, alone or together with `prefix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Prefix>,
    /// The interface that has its own limits instead of the node's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether packets over the limits are counted and passed.
    pub observe: bool,
    /// Usage of the limits. For the node and interfaces it includes the reserve of each CPU.
    pub limits: Vec<LimitState>,
    /// Packets refused by the limits: for the node since its tables were created, for others as far
    /// as they are remembered. Unset if they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_packets: Option<u64>,
}

/// Usage of a limit.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LimitState {
    /// Definition of the limit.
    pub limit: LimitSpec,
    /// Amount in use: in the current window, weighted with the previous one for sliding windows, or
    /// the missing tokens of a bucket.
    pub used: u64,
    /// Seconds until the limit accepts a packet (for bytes, a full frame) if none arrives before; 0
    /// if it accepts one now.
    pub room_in_seconds: f64,
    /// Seconds until the usage is 0 if no packet arrives.
    pub clears_in_seconds: f64,
    /// Share of this node if the cluster shares the limit; `used` then counts against the share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareView>,
}
