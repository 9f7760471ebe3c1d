//! The state of the daemon and its interfaces.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AttackView, Attempt, ChallengeStatus, ClassView, ClockStatus, ClusterStatus, CrowdsecStatus,
    HistoryStatus, InactiveLimits, ListView, NewSourcesStatus, PassAllStatus, Trouble,
};
use crate::detection::Kind;

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
    /// Number of sources with a temporary additional limit.
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
    /// Configured mode: `auto`, `native`, `generic`, `tcx` or `pinned`.
    pub mode_wanted: String,
    /// Mode in use: `native`, `generic`, `tcx` or `pinned`; unset if not attached.
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
