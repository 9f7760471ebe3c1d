//! Limits that are set at runtime, and policies.

use std::num::NonZeroU32;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{EntryCounter, RuntimeEntry};
use crate::{
    ban::BanSpec,
    class::{Action, Class},
    intent::Target,
    limit::LimitSpec,
    origin::Origin,
    prefix::Prefix,
};

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
    /// Whether the policy drops every packet, whatever the limits are.
    #[serde(default)]
    pub drops: bool,
    /// Whether packets over the limits are counted and passed.
    pub observe: bool,
    /// Whether `observe` was set before the change.
    pub observe_before: bool,
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
    /// TCP connections that a source may have with this host; unset for any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<NonZeroU32>,
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

/// Runtime limits that are stored but inactive.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct InactiveLimits {
    /// Name of the policy: a prefix or `default`.
    pub policy: String,
    /// The reason the limits are inactive.
    pub error: String,
}
