//! The API between `rlctl` and `ratelimitd`, version 1: JSON over HTTP on a Unix socket.
//!
//! [`openapi`] describes every request. Refused requests return a [`Problem`] with status 4xx or
//! 5xx. Times are RFC 3339, durations are seconds.

mod attack;
mod ban_filter;
mod capture;
mod challenge;
mod clock;
mod cluster;
mod covering;
mod crowdsec;
mod entry_counter;
mod event;
mod history;
mod keys;
mod lists;
mod live;
mod lockout;
mod new_sources;
pub mod openapi;
mod packet;
mod problem;
mod program;
mod runtime;
mod setting;
mod unenforced;
mod upstream;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    attack::*, ban_filter::*, capture::*, challenge::*, clock::*, cluster::*, covering::*,
    crowdsec::*, entry_counter::*, event::*, history::*, keys::*, lists::*, live::*, lockout::*,
    new_sources::*, packet::*, problem::*, program::*, runtime::*, setting::*, unenforced::*,
    upstream::*,
};
pub use crate::origin::Origin;
use crate::{
    ban::BanSpec,
    class::{Action, Class},
    detection::{Kind, Sending},
    geo::Place,
    intent::Target,
    limit::LimitSpec,
    lists::NoList,
    prefix::Prefix,
};

/// The largest body of a request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Reports that a request was refused and changed nothing.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Refused {
    /// The error: what failed, on which object, and why; no trailing full stop. [`Problem`] has it
    /// as `detail`.
    #[serde(alias = "detail")]
    pub error: String,
    /// A command or configuration line that fixes the error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// Stable error code for programs; unset if the HTTP status says enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The error including quotes from files, for the log and for root.
    #[serde(skip)]
    pub quoting: Option<String>,
}

/// Bans all given prefixes, or none of them if one is refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BanRequest {
    /// Prefixes to ban.
    pub prefixes: Vec<Prefix>,
    /// Addresses whose source prefix is banned: the address itself for IPv4, usually the /64 for
    /// IPv6.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// Duration in seconds; unset uses `[ban] for` of the configuration, unless `forever` is set.
    pub seconds: Option<f64>,
    /// Makes the ban permanent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forever: bool,
    /// Free text shown with the ban.
    pub reason: Option<String>,
    /// Also bans protected addresses and very wide prefixes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Adds all given prefixes to the allow list, or none of them if one is refused.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AllowRequest {
    /// Prefixes to allow.
    pub prefixes: Vec<Prefix>,
    /// Duration in seconds; unset is forever.
    pub seconds: Option<f64>,
    /// Free text shown with the entry.
    pub reason: Option<String>,
    /// Permits prefixes wider than a /8 (IPv4) or a /16 (IPv6).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Removes the bans of the given prefixes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnbanRequest {
    /// Prefixes to unban.
    pub prefixes: Vec<Prefix>,
    /// Addresses to unban, together with their source prefix (usually the /64 for IPv6).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
}

/// Removes all given prefixes from the allow list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixesRequest {
    /// Prefixes to remove.
    pub prefixes: Vec<Prefix>,
}

/// Sets runtime limits that replace the configured ones, for a prefix or for the default policy.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// Sources that get the limits; unset is the default policy, unless `destination` is set.
    pub prefix: Option<Prefix>,
    /// Destination that gets the limits, which all its packets share; excludes `prefix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Prefix>,
    /// Limits to set.
    pub limits: Vec<LimitSpec>,
    /// Counts and passes packets over these limits. A dry run covers all limits of the sources.
    #[serde(default)]
    pub observe: bool,
    /// Replaces all other limits of the policy, and its ban. Otherwise only limits with the same
    /// unit, class and window are replaced.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// Duration in seconds; unset is forever.
    pub seconds: Option<f64>,
    /// Free text shown with the limits.
    pub reason: Option<String>,
}

/// The sources or the destination that limits apply to. As a request: removes their runtime limits,
/// so that the configured ones apply again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitTarget {
    /// Source prefix; unset is the default policy, unless `destination` is set.
    pub prefix: Option<Prefix>,
    /// Destination that the limits apply to; excludes `prefix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Prefix>,
}

impl From<Target> for LimitTarget {
    fn from(target: Target) -> Self {
        Self {
            prefix: target.sources(),
            destination: target.destination(),
        }
    }
}

/// The result of a change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Changed {
    /// Number of new entries.
    pub added: usize,
    /// Number of entries that existed and changed.
    pub updated: usize,
    /// Number of removed entries.
    pub removed: usize,
    /// Prefixes to remove that had no entry.
    pub absent: Vec<Prefix>,
    /// Bans by lists or by wider prefixes that still cover an unbanned prefix.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<RemainingBan>,
    /// When the added entries expire; unset if they are permanent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Source prefixes of the addresses in `sources`, in the same order; of an unban, only those
    /// that were banned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Prefix>,
    /// Existing bans of the same prefixes with a later expiry than requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub longer: Vec<LongerBan>,
    /// Prefixes that are allowed, so that the new ban or limit has no effect on them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Allowed>,
    /// The limits that apply after limits were set or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsNow>,
    /// Whether the usage counters of sources with changed limits were reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_anew: bool,
    /// Whether their counters are reset again when temporary limits expire.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_anew: bool,
    /// Whether the change reaches the other cluster nodes later because the store is unreachable
    /// now.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_store: bool,
}

/// An existing ban that expires later than the requested one.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LongerBan {
    /// The banned prefix.
    pub prefix: Prefix,
    /// When the existing ban expires; unset if it is permanent.
    pub until: Option<Timestamp>,
    /// Whether the existing ban was kept because the request named no duration.
    pub kept: bool,
}

/// A prefix that is on the allow list.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Allowed {
    /// The prefix of the request.
    pub prefix: Prefix,
    /// The entry of the allow list that covers it.
    pub by: Prefix,
}

/// Limits and ban of a policy after a change.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LimitsNow {
    /// All limits that apply now, including those of the policy.
    pub limits: Vec<LimitSpec>,
    /// Limits that applied before and were replaced.
    pub replaced: Vec<LimitSpec>,
    /// When the policy bans a source that keeps exceeding its limits; unset if it never does.
    pub ban: Option<BanSpec>,
    /// The previous ban rule, if it was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban_before: Option<BanSpec>,
    /// Whether packets over the limits are counted and passed.
    pub observe: bool,
    /// Whether `observe` was set before the change.
    pub observe_before: bool,
}

/// A ban that still covers an unbanned prefix.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RemainingBan {
    /// The prefix that was unbanned.
    pub prefix: Prefix,
    /// The prefix of the remaining ban: the same or a wider one.
    pub banned: Prefix,
    /// Origin of the remaining ban.
    pub origin: Origin,
}

/// A ban in force.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Ban {
    /// The banned prefix.
    pub prefix: Prefix,
    /// When the ban expires; unset if it is permanent.
    pub until: Option<Timestamp>,
    /// When the ban was set.
    pub since: Timestamp,
    /// Free text given with the ban.
    pub reason: Option<Arc<str>>,
    /// The user or program that set the ban.
    #[serde(rename = "by")]
    pub author: Arc<str>,
    /// Origin of the ban: command, program, list, policy or cluster node.
    pub origin: Origin,
    /// Packets dropped by the ban. If several bans cover a prefix, the one that expires last counts
    /// them.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// An entry of the allow list.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Allow {
    /// The allowed prefix.
    pub prefix: Prefix,
    /// When the entry expires; unset if it is permanent.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// When the entry was added; unset if it is from the configuration.
    pub since: Option<Timestamp>,
    /// Free text given with the entry.
    pub reason: Option<Arc<str>>,
    /// The user who added the entry.
    #[serde(rename = "by")]
    pub author: Option<Arc<str>>,
    /// Origin of the entry: command, configuration, list or cluster node.
    pub origin: Origin,
    /// Packets passed by the entry. If several entries cover a prefix, the one that expires last
    /// counts them.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// A policy and the prefixes it applies to.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolicyView {
    /// Name in the configuration, or the prefix for limits set at runtime.
    pub name: String,
    /// Prefixes of the policy, without those of a database; empty for the default policy.
    pub prefixes: Vec<Prefix>,
    /// Countries and networks that the policy takes from a database, such as `country DE,
    /// AS64500`. Their prefixes are the list `[policy.NAME]`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selection: Option<String>,
    /// Limits of the policy.
    pub limits: Vec<LimitSpec>,
    /// Whether the policy drops every packet.
    #[serde(default)]
    pub drops: bool,
    /// Whether packets over the limits are counted and passed.
    pub observe: bool,
    /// When the policy bans a source; unset if it never does.
    #[serde(default)]
    pub ban: Option<BanSpec>,
    /// The traffic that shares each limit.
    #[serde(default)]
    pub applies_to: AppliesTo,
    /// Author, expiry and reason of limits that were set at runtime.
    #[serde(flatten)]
    pub runtime: Option<RuntimeEntry>,
    /// Origin of the policy.
    pub origin: Origin,
    /// Packets judged by the policy. Limits of prefixes and of the node judge packets in addition
    /// to a policy and have no counter.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// The traffic that shares a limit.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppliesTo {
    /// Each source has the limit for itself.
    #[default]
    Source,
    /// All sources in a prefix of the configured length share the limit.
    Prefix,
    /// All traffic to a destination shares the limit.
    Destination,
    /// The traffic of each source to a destination shares the limit.
    SourceToDestination,
    /// All traffic received on an interface shares the limit.
    Interface,
    /// All traffic of the host shares the limit, except on interfaces with limits of their own.
    Node,
}

/// How close a source is to a ban by its policy.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct StrikesView {
    /// Drops counted so far.
    pub strikes: u64,
    /// The ban rule of the policy.
    pub ban: BanSpec,
    /// Number of earlier bans of this source by policies, as far as they are remembered.
    pub bans: u32,
}

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
    /// Interfaces with a different verdict; empty if the request names an interface.
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

/// A class defined in the configuration.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClassView {
    /// Name of the class.
    pub name: String,
    /// The packets that belong to the class.
    #[serde(flatten)]
    pub class: Class,
    /// Action for packets of the class instead of limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
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

/// Selects the busiest sources.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TopRequest {
    /// Maximum number of sources, up to 10,000; unset is 20.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Comma-separated prefixes to include while they are banned.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with: String,
}

/// Selects the busiest destinations.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TopDestinationsRequest {
    /// Maximum number of destinations, up to 10,000; unset is 20.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A busy source, or a prefix with limits of its own.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TopSource {
    /// The source or prefix.
    pub source: Prefix,
    /// The policy that applies to it.
    pub policy: String,
    /// The limit that is closest to being exceeded.
    pub limit: Option<LimitState>,
    /// Packets that limits refused, as far as they are remembered.
    pub refused_packets: u64,
    /// The ban that applies to the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban: Option<Ban>,
    /// The most frequent kind of packet; unset if no sample shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
    /// The country and network of the source, if a list selects them from a database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
}

/// Packets with the same verdict on an interface.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct StatsRow {
    /// Name of the interface.
    pub interface: String,
    /// Address family: `ipv4`, `ipv6` or `other`.
    pub family: String,
    /// The verdict: `pass`, `drop` or `observe`.
    pub action: String,
    /// Reason of the verdict, named as in the metrics.
    pub reason: String,
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes.
    pub bytes: u64,
}

/// The kinds of attack that detection is configured for.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DetectionStatus {
    /// Kinds that are only reported.
    pub reported: Vec<Kind>,
    /// Kinds whose sources are limited or banned.
    pub answered: Vec<Kind>,
}

/// The state of the daemon and its datapath.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Status {
    /// Version of the daemon.
    pub version: String,
    /// Process ID of the daemon.
    pub pid: u32,
    /// When the daemon started.
    pub started: Timestamp,
    /// Files that the configuration was read from; empty if it is from the command line.
    pub config_files: Vec<String>,
    /// When the configuration was last applied.
    pub config_applied: Timestamp,
    /// The error of the last reload; unset if it succeeded. Quotes from files are shown to root
    /// only and replaced by `…` for others.
    pub config_error: Option<String>,
    /// Whether the whole host is a dry run.
    pub observe: bool,
    /// The clock used for limits.
    pub clock: ClockStatus,
    /// The protected interfaces.
    pub interfaces: Vec<InterfaceStatus>,
    /// The BPF maps.
    pub maps: Vec<MapStatus>,
    /// Number of bans in force.
    pub bans: usize,
    /// Number of those bans that policies or detection set.
    #[serde(default)]
    pub automatic_bans: usize,
    /// Kinds of attack that detection is configured for; unset if the daemon is older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<DetectionStatus>,
    /// Attacks in progress.
    #[serde(default)]
    pub attacks: Vec<AttackView>,
    /// Number of attacking sources with a temporary additional limit.
    #[serde(default)]
    pub limited: usize,
    /// Number of entries on the allow list.
    pub allows: usize,
    /// Lists from files and imports.
    #[serde(default)]
    pub lists: Vec<ListView>,
    /// Number of policies, including the default one.
    pub policies: usize,
    /// Classes defined in the configuration.
    #[serde(default)]
    pub classes: Vec<ClassView>,
    /// Lengths of prefixes whose sources share a limit, such as `ipv4/24`.
    #[serde(default)]
    pub aggregates: Vec<String>,
    /// Tunnels whose packets count for the inner source: `gre`, `vxlan:4789`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tunnels: Vec<String>,
    /// Number of destinations with limits.
    #[serde(default)]
    pub destinations: usize,
    /// Whether the node has limits.
    #[serde(default)]
    pub node: bool,
    /// Budget for new sources; unset if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sources: Option<NewSourcesStatus>,
    /// State of the challenge; unset if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeStatus>,
    /// Connection to the `CrowdSec` local API; unset if none is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowdsec: Option<CrowdsecStatus>,
    /// State of the cluster; unset if none is configured.
    #[serde(default)]
    pub cluster: Option<ClusterStatus>,
    /// Number of protected addresses and prefixes.
    #[serde(default)]
    pub protected: usize,
    /// Set while `pass-all` is on.
    #[serde(default)]
    pub pass_all: Option<PassAllStatus>,
    /// The last configuration trial, if it is unconfirmed or the files differ from it.
    #[serde(default)]
    pub attempt: Option<Attempt>,
    /// State of the database.
    #[serde(default)]
    pub database: DatabaseStatus,
    /// State of the packet history.
    #[serde(default)]
    pub history: HistoryStatus,
    /// Failures that do not affect enforcement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
}

/// The state of the database.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DatabaseStatus {
    /// The damaged database found at startup, if any.
    pub damaged: Option<DamagedDatabase>,
    /// Number of damaged databases from this and earlier starts in the state directory.
    pub aside: usize,
    /// Stored runtime limits that are inactive because they do not fit the configuration.
    pub inactive: Vec<InactiveLimits>,
}

/// Runtime limits that are stored but inactive.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InactiveLimits {
    /// Name of the policy: a prefix or `default`.
    pub policy: String,
    /// The reason the limits are inactive.
    pub error: String,
}

/// A damaged database that was moved aside.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DamagedDatabase {
    /// Path of the damaged file.
    pub file: String,
    /// Description of the damage.
    pub error: String,
}

/// A protected interface.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InterfaceStatus {
    /// Name of the interface.
    pub name: String,
    /// Whether the program is attached to the interface.
    pub attached: bool,
    /// Configured mode: `auto`, `native` or `generic`.
    pub mode_wanted: String,
    /// Mode used by the kernel: `native` or `generic`; unset if not attached.
    pub mode: Option<String>,
    /// New name of the interface after a rename. The program stays attached to it until another
    /// interface gets the configured name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<String>,
    /// The reason the program is not attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Additional information about the attachment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Path of the pinned program that receives passed packets, if configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The policy of the interface for sources that no prefix selects, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Whether the interface has its own limits instead of the node's.
    #[serde(default)]
    pub node: bool,
    /// Whether the interface is a dry run.
    #[serde(default)]
    pub observe: bool,
}

/// A BPF map and its usage.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MapStatus {
    /// Name of the map.
    pub name: String,
    /// Entries in use; unset if counting them needs a scan of the table.
    pub entries: Option<u64>,
    /// Maximum number of entries.
    pub capacity: u32,
    /// Kernel memory in bytes.
    pub memory_bytes: u64,
}

/// The result of a reload.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Reloaded {
    /// Files that were read.
    pub files: Vec<String>,
    /// Changed settings, one per line; empty if nothing changed.
    pub changes: Vec<String>,
    /// Warnings about routed or bridged traffic, and about limits that slow TCP down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Reads the configuration files again.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReloadRequest {
    /// Discards a confirmed configuration that was never written to a file.
    pub discard: bool,
    /// Accepts policies that drop every packet of addresses that this host needs.
    pub force: bool,
}

/// Selects the configuration to compare with the running one.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiffRequest {
    /// The configuration to compare; unset compares the files that a reload would read.
    pub tried: Option<ApplyRequest>,
}

/// The result of a detach.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Detached {
    /// Interfaces that are no longer protected.
    pub interfaces: Vec<String>,
}

impl Refused {
    /// Creates a refusal without a hint.
    pub fn because(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            hint: None,
            code: None,
            quoting: None,
        }
    }

    /// Sets the error code.
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Sets the variant of the error that quotes files.
    pub fn quoting(mut self, quoting: impl Into<String>) -> Self {
        self.quoting = Some(quoting.into());
        self
    }

    /// Returns the error for the log, including quotes from files.
    pub fn in_full(&self) -> &str {
        self.quoting.as_deref().unwrap_or(&self.error)
    }

    /// Replaces the error by the variant that quotes files.
    pub fn for_root(mut self) -> Self {
        self.error = self.quoting.take().unwrap_or(self.error);
        self
    }

    /// Sets the hint.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<anyhow::Error> for Refused {
    fn from(error: anyhow::Error) -> Self {
        Self::because(format!("{error:#}"))
    }
}

impl From<NoList> for Refused {
    fn from(error: NoList) -> Self {
        Self::because(error.error)
            .hint(error.hint)
            .code(Code::BadList)
    }
}
