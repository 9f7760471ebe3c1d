//! What `rlctl` and `ratelimitd` say to each other: HTTP and JSON over a Unix socket, version 1.
//!
//! [`openapi`] describes every request.
//!
//! Whatever is refused answers a [`Problem`] with a status of 4xx or 5xx. Times are RFC 3339, durations are seconds.

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
mod suggest;
mod unenforced;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    attack::*, ban_filter::*, capture::*, challenge::*, clock::*, cluster::*, covering::*,
    crowdsec::*, entry_counter::*, event::*, history::*, lists::*, live::*, lockout::*,
    new_sources::*, packet::*, problem::*, program::*, runtime::*, setting::*, suggest::*,
    unenforced::*,
};
pub use crate::origin::Origin;
use crate::{
    ban::BanSpec,
    class::{Action, Class},
    detection::{Kind, Sending},
    intent::Target,
    limit::LimitSpec,
    lists::NoList,
    prefix::Prefix,
};

/// The largest body of a request, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Why a request was not carried out; nothing of it was.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Refused {
    /// What was tried, on what, why it failed. No full stop.
    pub error: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// What kind of error it is, for programs; `None` is what the status of the answer says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// The error with what it quotes of files: for the log, and for those who may read every file.
    #[serde(skip)]
    pub quoting: Option<String>,
}

/// Bans every prefix of a list, or none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct BanRequest {
    /// The prefixes.
    pub prefixes: Vec<Prefix>,
    /// Addresses whose sources are banned: of IPv6 usually the /64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
    /// For how many seconds; `None` is as long as `[ban] for` of the configuration says, unless it is `forever`.
    pub seconds: Option<f64>,
    /// Whether the ban has no end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub forever: bool,
    /// Why.
    pub reason: Option<String>,
    /// Whether what is protected and what is very wide may be banned too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Allows every prefix of a list, or none.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct AllowRequest {
    /// Whom.
    pub prefixes: Vec<Prefix>,
    /// For how many seconds; `None` is forever.
    pub seconds: Option<f64>,
    /// Why.
    pub reason: Option<String>,
    /// Whether a prefix wider than a /8, of IPv6 a /16, may be allowed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
}

/// Ends the bans of prefixes.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct UnbanRequest {
    /// The prefixes.
    pub prefixes: Vec<Prefix>,
    /// Addresses whose own bans end, and those of the sources that they belong to: of IPv6 usually the /64.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<IpAddr>,
}

/// Takes every prefix of a list off it.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PrefixesRequest {
    /// Whom.
    pub prefixes: Vec<Prefix>,
}

/// Gives a prefix, or every source without a policy of its own, limits in place of what the configuration says.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitRequest {
    /// The sources; `None` is the default policy, unless there is a destination.
    pub prefix: Option<Prefix>,
    /// The destination, all of whose packets count together; then there is no `prefix`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Prefix>,
    /// The limits.
    pub limits: Vec<LimitSpec>,
    /// Whether to count and pass what they would drop. A dry run is one of all limits that its sources have.
    #[serde(default)]
    pub observe: bool,
    /// Whether the other limits of the policy, and its ban, do not hold beside them. Otherwise they stay, but for limits of the same unit
    /// and class, and of the same window where there is one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub only: bool,
    /// For how many seconds; `None` is forever.
    pub seconds: Option<f64>,
    /// Why.
    pub reason: Option<String>,
}

/// Whose limits they are; as a request it takes runtime limits away, so that the configuration holds again.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct LimitTarget {
    /// Whose; `None` is the default policy, unless there is a destination.
    pub prefix: Option<Prefix>,
    /// The destination whose they are; then there is no `prefix`.
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

/// What a change did.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Changed {
    /// Entries that were not there before.
    pub added: usize,
    /// Entries that were there and are different.
    pub updated: usize,
    /// Entries that are gone.
    pub removed: usize,
    /// Prefixes that were named for removal and were not there.
    pub absent: Vec<Prefix>,
    /// Bans of lists and of wider prefixes that go on holding for prefixes that were unbanned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<Held>,
    /// When what was added ends; `None` is never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The sources of the addresses that were named by `sources`, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Prefix>,
    /// Bans of the same prefixes that were to last longer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub longer: Vec<LongerBan>,
    /// Prefixes of bans and limits that are allowed, so that these have no effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Allowed>,
    /// The limits that hold where some were set or removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsNow>,
    /// Whether sources that get other limits have used nothing of them yet, whatever they had used before.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub starts_anew: bool,
    /// Whether the same holds when limits that end by themselves do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends_anew: bool,
    /// Whether other nodes of the cluster hear of it when its store answers, which it does not at this moment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_store: bool,
}

/// A ban that was to last longer than the one that was asked for.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LongerBan {
    /// The prefix.
    pub prefix: Prefix,
    /// Until when; `None` is forever.
    pub until: Option<Timestamp>,
    /// Whether it stays, as no time was asked for.
    pub kept: bool,
}

/// A prefix that is allowed.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
pub struct Allowed {
    /// The prefix.
    pub prefix: Prefix,
    /// The allow of it, or around it.
    pub by: Prefix,
}

/// What a change of limits left.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LimitsNow {
    /// All limits that hold now, those of the policy included.
    pub limits: Vec<LimitSpec>,
    /// Those that held before and do not any more.
    pub replaced: Vec<LimitSpec>,
    /// When a source is banned that continues over them; `None` is never.
    pub ban: Option<BanSpec>,
    /// The same as it was before, where it does not hold any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban_before: Option<BanSpec>,
    /// Whether what they would drop passes.
    pub observe: bool,
    /// Whether that was so before.
    pub observe_before: bool,
}

/// A ban that goes on holding for a prefix.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Held {
    /// The prefix.
    pub prefix: Prefix,
    /// Whose ban it is: the same, or one around it.
    pub banned: Prefix,
    /// What the ban is of.
    pub origin: Origin,
}

/// A banned prefix.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Ban {
    /// Whom.
    pub prefix: Prefix,
    /// Until when; `None` is forever.
    pub until: Option<Timestamp>,
    /// Since when.
    pub since: Timestamp,
    /// Why.
    pub reason: Option<Arc<str>>,
    /// The user who typed it, or what else decided it.
    pub author: Arc<str>,
    /// Where it comes from.
    pub origin: Origin,
    /// The packets that matched it. Of several bans that hold they matched the one that lasts longest.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// An allowed prefix.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Allow {
    /// Whom.
    pub prefix: Prefix,
    /// Until when; `None` is forever.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// Since when; `None` for what stands in the configuration.
    pub since: Option<Timestamp>,
    /// Why.
    pub reason: Option<Arc<str>>,
    /// The user who typed it.
    pub author: Option<Arc<str>>,
    /// Where it comes from.
    pub origin: Origin,
    /// The packets that matched it. Of several allows that hold they matched the one that lasts longest.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// A policy, with the prefixes that it is for.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct PolicyView {
    /// Its name in the configuration, or the prefix whose limits were set at runtime.
    pub name: String,
    /// The prefixes; empty for the default policy.
    pub prefixes: Vec<Prefix>,
    /// Its limits.
    pub limits: Vec<LimitSpec>,
    /// Whether what it would drop passes.
    pub observe: bool,
    /// When it bans a source; `None` is never.
    #[serde(default)]
    pub ban: Option<BanSpec>,
    /// What shares the limits.
    #[serde(default)]
    pub applies_to: AppliesTo,
    /// Who set the runtime limits, until when and why; nothing of it is there where nobody did.
    #[serde(flatten)]
    pub runtime: Option<RuntimeEntry>,
    /// Where it comes from.
    pub origin: Origin,
    /// The packets that were judged by it. Those of prefixes and of the node judge packets that matched another policy too, and are
    /// not counted apart.
    #[serde(flatten)]
    pub counter: EntryCounter,
}

/// What shares the limits of a policy.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AppliesTo {
    /// Each source has them for itself.
    #[default]
    Source,
    /// Each prefix of a length has them, for all of its sources.
    Prefix,
    /// They are of everything that goes to a destination.
    Destination,
    /// Each source has them for itself, for what it sends to a destination.
    SourceToDestination,
    /// They are of everything that comes by an interface.
    Interface,
    /// They are of everything that arrives, but by interfaces with limits of their own.
    Node,
}

/// How far a source is from a ban by its policy.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct StrikesView {
    /// Drops that count.
    pub strikes: u64,
    /// When the policy bans.
    pub ban: BanSpec,
    /// How often policies have banned the source, as far as that is remembered.
    pub bans: u32,
}

/// What would happen to a packet of an address at this moment.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Check {
    /// The address.
    pub address: IpAddr,
    /// The source that it belongs to.
    pub source: Prefix,
    /// What was said of the packet; nothing where it is of no class.
    #[serde(default)]
    pub packet: PacketRequest,
    /// `pass`, `drop` or `observe`.
    pub action: String,
    /// The reason, as in the metrics.
    pub reason: String,
    /// The limit that refuses it, and when there is room again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusedBy>,
    /// Classes whose packets another verdict waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassVerdict>,
    /// Interfaces on which another verdict waits for it, where no interface was named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<InterfaceVerdict>,
    /// The prefix of the rule that decides; `None` when it is the default policy.
    pub rule: Option<Prefix>,
    /// When the ban, the allow or the runtime limits that decide end; `None` for what never ends.
    pub until: Option<Timestamp>,
    /// The ban that decides, when it is one.
    pub ban: Option<Ban>,
    /// Why the address is protected, so that only bans that were forced hold for it; `None` when it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protected: Option<String>,
    /// The lists that hold the address.
    #[serde(default)]
    pub lists: Vec<Listed>,
    /// The policy that the source is under.
    pub policy: String,
    /// Why it has a further limit, where it took part in an attack.
    #[serde(default)]
    pub limited: Option<Limited>,
    /// Whether its limits are a dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub observe: bool,
    /// Whether nothing of it is dropped, as its limits, the interface that was named or everything is a dry run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dry_run: bool,
    /// The state of its limits.
    pub limits: Vec<LimitState>,
    /// The limits of the prefixes around the source, the narrowest first, and of the node.
    #[serde(default)]
    pub wider: Vec<WiderLimits>,
    /// All entries that cover the address, what comes before the others first: allows, bans, policies.
    #[serde(default)]
    pub covering: Vec<Covering>,
    /// The drops of the source in the sample, those that are alike together, the last ones first.
    #[serde(default)]
    pub last_drops: Vec<SeenDrops>,
    /// How far the source is from a ban by its policy; `None` where that does not ban.
    #[serde(default)]
    pub strikes: Option<StrikesView>,
    /// The tunnels in which packets count for the source inside, and not for the one that sends the tunnel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<String>,
    /// The pinned programs that get what passes, by the interface that it comes to.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub next: BTreeMap<String, String>,
    /// The budget for new sources, where the packet passes if the source is not one too many of them, or is over it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sources: Option<NewSourcesStatus>,
    /// The challenge of sources, where there is one and the source is not exempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<SourceChallenge>,
    /// Packets of the source that limits refused, as far as they are remembered.
    pub refused_packets: u64,
    /// When the last of them came.
    pub refused_last: Option<Timestamp>,
    /// Where it is not enforced, and packets pass whatever the answer is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<Unenforced>,
}

/// What happens to packets of a class.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClassVerdict {
    /// The class, as the limit names it.
    pub class: String,
    /// `pass`, `drop` or `observe`.
    pub action: String,
    /// The reason, as in the metrics.
    pub reason: String,
    /// The limit that refuses them, and when there is room again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_by: Option<RefusedBy>,
    /// Drops of the class in the sample.
    #[serde(default)]
    pub drops_seen: usize,
}

/// What happens to a packet on an interface that has a policy of its own, or is a dry run.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InterfaceVerdict {
    /// The name of the interface.
    pub interface: String,
    /// The policy of sources there that no prefix selects.
    pub policy: String,
    /// `pass`, `drop` or `observe`.
    pub action: String,
    /// The reason, as in the metrics.
    pub reason: String,
}

/// The limit that refuses a packet.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RefusedBy {
    /// The limit.
    pub limit: LimitSpec,
    /// Seconds until it has room, if no packet comes before; `None` where several prefixes have such a limit.
    pub room_in_seconds: Option<f64>,
}

/// Drops in the sample that are alike.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SeenDrops {
    /// The last of them.
    #[serde(flatten)]
    pub last: Event,
    /// How many are in the sample.
    pub count: usize,
    /// When the first of them came.
    pub since: Timestamp,
}

impl SeenDrops {
    /// Adds a drop, which comes after those that were `seen`, to the ones that it is like; `false` for another event.
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

/// Limits that a source shares with others.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WiderLimits {
    /// The prefix that shares them, or the source; `None` for the node, an interface, and a destination.
    pub prefix: Option<Prefix>,
    /// The destination that they are of, or what a source sends there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination: Option<Prefix>,
    /// The interface that they are of, in place of those of the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// Whether what they would drop passes.
    pub observe: bool,
    /// Their state. Of the node and an interface, what a CPU has drawn and not spent yet counts as used.
    pub limits: Vec<LimitState>,
    /// Packets that they refused: of the node since the tables were made, of others as far as they are remembered. `None` where that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused_packets: Option<u64>,
}

/// A class that the configuration names.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ClassView {
    /// Its name.
    pub name: String,
    /// Its packets.
    #[serde(flatten)]
    pub class: Class,
    /// What becomes of its packets, besides limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<Action>,
}

/// How much of a limit a source has used.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LimitState {
    /// The limit.
    pub limit: LimitSpec,
    /// What is in use: of the window that is open, of it and the weighted one before, or of the tokens of a full bucket.
    pub used: u64,
    /// Seconds until there is room for a packet, of bytes for a full frame, if none comes before; 0 when there is.
    pub room_in_seconds: f64,
    /// Seconds until nothing is in use, if no packet comes.
    pub clears_in_seconds: f64,
    /// What this node has of it, where the nodes of a cluster share it. Then what is in use is in use of that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<ShareView>,
}

/// How many of the busiest sources are asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TopRequest {
    /// At most 10,000; `None` is 20.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Prefixes that are told too while they are banned, with commas between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub with: String,
}

/// How many of the busiest destinations are asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default)]
pub struct TopDestinationsRequest {
    /// At most 10,000; `None` is 20.
    #[schemars(range(min = 1, max = 10_000))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
}

/// A source, or a prefix with limits of its own, that is busy at this moment.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct TopSource {
    /// The source or the prefix.
    pub source: Prefix,
    /// The policy that it is under.
    pub policy: String,
    /// Its limit with the least room.
    pub limit: Option<LimitState>,
    /// Packets that limits refused, as far as they are remembered.
    pub refused_packets: u64,
    /// The ban that holds for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ban: Option<Ban>,
    /// What most of its packets are; `None` where samples have not shown it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sending: Option<Sending>,
}

/// Packets that had one verdict on one interface.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct StatsRow {
    /// The interface.
    pub interface: String,
    /// `ipv4`, `ipv6` or `other`.
    pub family: String,
    /// `pass`, `drop` or `observe`.
    pub action: String,
    /// The reason.
    pub reason: String,
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// The attacks that are looked for.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DetectionStatus {
    /// Those that are reported, and nothing else.
    pub reported: Vec<Kind>,
    /// Those whose sources are limited or banned.
    pub answered: Vec<Kind>,
}

/// The state of the daemon and its datapath.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Status {
    /// The version of the daemon.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Since when it runs.
    pub started: Timestamp,
    /// The files that the configuration came from; empty when it came from the command line.
    pub config_files: Vec<String>,
    /// When the configuration was last applied.
    pub config_applied: Timestamp,
    /// Why the last reload was refused; `None` when it was not. What it quotes of files is shown to root alone, to others as `…`.
    pub config_error: Option<String>,
    /// Whether everything is a dry run.
    pub observe: bool,
    /// The clock that packets are judged by.
    pub clock: ClockStatus,
    /// The interfaces.
    pub interfaces: Vec<InterfaceStatus>,
    /// The BPF maps.
    pub maps: Vec<MapStatus>,
    /// Bans that are in force.
    pub bans: usize,
    /// Those of them that detection made.
    #[serde(default)]
    pub detected_bans: usize,
    /// What attacks are looked for; `None` by an older daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detection: Option<DetectionStatus>,
    /// Attacks that are going on, of those that are looked for.
    #[serde(default)]
    pub attacks: Vec<AttackView>,
    /// Sources of attacks that have a further limit for a time.
    #[serde(default)]
    pub limited: usize,
    /// Allows.
    pub allows: usize,
    /// Lists, those in files and those that were imported.
    #[serde(default)]
    pub lists: Vec<ListView>,
    /// Policies of sources, the default one included.
    pub policies: usize,
    /// The classes that the configuration names.
    #[serde(default)]
    pub classes: Vec<ClassView>,
    /// The lengths of the wider prefixes that have limits: `ipv4/24`.
    #[serde(default)]
    pub aggregates: Vec<String>,
    /// The tunnels of which the source is that of the packet inside: `gre`, `vxlan:4789`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inner: Vec<String>,
    /// How many destinations have limits.
    #[serde(default)]
    pub destinations: usize,
    /// Whether the node has limits.
    #[serde(default)]
    pub node: bool,
    /// The budget for new sources; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new_sources: Option<NewSourcesStatus>,
    /// The challenge of sources; `None` where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub challenge: Option<ChallengeStatus>,
    /// The connection to the local API of `CrowdSec`; `None` where the configuration names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crowdsec: Option<CrowdsecStatus>,
    /// The cluster that this host is a node of; `None` where the configuration names none.
    #[serde(default)]
    pub cluster: Option<ClusterStatus>,
    /// Addresses and prefixes that are protected.
    #[serde(default)]
    pub protected: usize,
    /// Whether everything passes, and since when.
    #[serde(default)]
    pub pass_all: Option<PassAllStatus>,
    /// The last configuration that was tried, where the files say something else or it is not confirmed.
    #[serde(default)]
    pub attempt: Option<Attempt>,
    /// The database.
    #[serde(default)]
    pub database: DatabaseStatus,
    /// How the history of packets is kept.
    #[serde(default)]
    pub history: HistoryStatus,
    /// What does not work and keeps nothing else from working.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
}

/// The state of the database.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DatabaseStatus {
    /// The damaged one that was found at the start.
    pub damaged: Option<DamagedDatabase>,
    /// How many damaged ones lie beside it, of this start or others before.
    pub aside: usize,
    /// Runtime limits that it has and that do not hold, as the configuration has no place for them.
    #[serde(rename = "left_out")]
    pub suspended: Vec<SuspendedLimits>,
}

/// Runtime limits that do not hold.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SuspendedLimits {
    /// The policy: a prefix, or `default`.
    pub policy: String,
    /// Why they do not.
    pub error: String,
}

/// A damaged database, which was put aside.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DamagedDatabase {
    /// Where it is.
    pub file: String,
    /// What is wrong with it.
    pub error: String,
}

/// An interface under protection.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InterfaceStatus {
    /// Its name.
    pub name: String,
    /// Whether the program is attached to the interface of this name.
    pub attached: bool,
    /// The mode that was asked for: `auto`, `native` or `generic`.
    pub mode_wanted: String,
    /// The mode that the kernel runs: `native` or `generic`; `None` when detached.
    pub mode: Option<String>,
    /// The interface that had its name before, and on which the program goes on until an interface has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renamed_to: Option<String>,
    /// Why it is not attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What is to be known about how it is attached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remark: Option<String>,
    /// Where the program is pinned that gets what passes there, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The policy of sources there that no prefix selects, where it is its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// Whether it has limits in place of those of the node.
    #[serde(default)]
    pub node: bool,
    /// Whether it is a dry run.
    #[serde(default)]
    pub observe: bool,
}

/// A BPF map.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct MapStatus {
    /// Its name.
    pub name: String,
    /// Entries in use; `None` where counting them would mean a table scan.
    pub entries: Option<u64>,
    /// The most entries.
    pub capacity: u32,
    /// Bytes of kernel memory.
    pub memory_bytes: u64,
}

/// What a reload changed.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Reloaded {
    /// The files that were read.
    pub files: Vec<String>,
    /// What is different, a line each; empty when nothing is.
    pub changes: Vec<String>,
    /// What is said there of packets that do not come to this host, and of limits that slow TCP down.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How the files are read again.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct ReloadRequest {
    /// Whether a configuration may be lost that was confirmed and is in no file.
    pub discard: bool,
}

/// Which configuration is compared with the one in force.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct DiffRequest {
    /// One that would be tried; `None` is what a reload would read.
    pub tried: Option<ApplyRequest>,
}

/// What a detach left.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Detached {
    /// The interfaces whose traffic is not looked at any more.
    pub interfaces: Vec<String>,
}

impl Refused {
    /// A refusal without a hint.
    pub fn because(error: impl Into<String>) -> Self {
        Self {
            error: error.into(),
            hint: None,
            code: None,
            quoting: None,
        }
    }

    /// Says the same with what kind of error it is.
    pub fn code(mut self, code: Code) -> Self {
        self.code = Some(code);
        self
    }

    /// Says the same with what it quotes of files.
    pub fn quoting(mut self, quoting: impl Into<String>) -> Self {
        self.quoting = Some(quoting.into());
        self
    }

    /// The error as the log tells it.
    pub fn in_full(&self) -> &str {
        self.quoting.as_deref().unwrap_or(&self.error)
    }

    /// The refusal as those see it who may read every file.
    pub fn for_root(mut self) -> Self {
        self.error = self.quoting.take().unwrap_or(self.error);
        self
    }

    /// Says what to do about it.
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
