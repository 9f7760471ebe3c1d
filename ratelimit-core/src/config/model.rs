//! The validated configuration.

use std::{
    collections::BTreeMap,
    iter,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    time::Duration,
};

use ratelimit_common::{
    Address as _, Ipv6, class::Property, layout::SOURCES_DEFAULT, parse::Tunnels,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;
use strum::{IntoStaticStr, VariantArray};

use super::{cluster::Cluster, crowdsec::Crowdsec, list::ListConfig, snapshot::Snapshots, tunnels};
use crate::{
    ban::BanSpec,
    challenge::Challenge,
    class::{Catalogue, Match},
    detection::{Kind, Rule, Rules},
    folding::Fold,
    ip_family::{IpAddress, IpFamily},
    keys::KeysConfig,
    limit::LimitSpec,
    new_sources::NewSources,
    policies::DEFAULT,
    prefix::Prefix,
    upstream::Upstream,
    watched::Watched,
};

/// Sliding logs that there is room for unless the configuration says otherwise.
const LOGS_DEFAULT: u32 = 1 << 14;

/// Settings of the daemon.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The files it was read from, in their order; empty when it came from the command line.
    pub files: Vec<PathBuf>,
    /// The interfaces; at least one.
    pub interfaces: Vec<Interface>,
    /// Definition of a source.
    pub source: SourceConfig,
    /// Budget for new sources; `None` is unlimited.
    pub new_sources: Option<NewSources>,
    /// The challenge by which sources have to prove themselves.
    pub challenge: Option<Challenge>,
    /// The classes that have names.
    pub classes: Catalogue,
    /// The policy for sources that no other is for.
    pub default_policy: PolicyConfig,
    /// The other policies, by name.
    pub policies: BTreeMap<String, PolicyConfig>,
    /// The limits of the wider prefixes around a source.
    pub aggregate: AggregateConfig,
    /// The limits of destinations, by prefix.
    pub destinations: BTreeMap<Prefix, DestinationConfig>,
    /// The limits of everything that arrives.
    pub node: NodeConfig,
    /// The most bans in a minute of sources with an established connection.
    pub bans_per_minute: NonZeroU32,
    /// The most bans and further limits in a minute of sources that may be forged.
    pub forgeable_per_minute: NonZeroU32,
    /// The attacks that have tables of their own.
    pub attacks: Rules,
    /// The default duration of a ban; `None` is forever.
    pub ban_for: Option<Duration>,
    /// When a prefix is banned as a whole, if ever.
    pub fold: Option<Fold>,
    /// Whether the daemon also looks for all others from time to time, and reports them.
    pub report: bool,
    /// The allow list, sorted.
    pub allow: Vec<Prefix>,
    /// Protected prefixes, sorted. They cannot be banned but are limited.
    pub protected: Vec<Prefix>,
    /// The lists that are read from files, by name.
    pub lists: BTreeMap<String, ListConfig>,
    /// Whether everything is a dry run.
    pub observe: bool,
    /// The clock that packets are judged by.
    pub clock: ClockWish,
    /// The action on the datapath when the daemon stops.
    pub on_stop: OnStop,
    /// The paths of the daemon's files.
    pub paths: Paths,
    /// The address of metrics; `None` if they are not served.
    pub metrics: Option<SocketAddr>,
    /// Whether the dashboard is served there too.
    pub dashboard: bool,
    /// File with the token that permits changes on the dashboard; `None` makes it read-only.
    pub dashboard_token: Option<PathBuf>,
    /// The retention of the traffic history; `None` if it is disabled.
    pub history: Option<Duration>,
    /// The snapshots that keep usage over reboots.
    pub snapshot: Snapshots,
    /// Limits watched in it, at most 8.
    pub watched: Vec<Watched>,
    /// The local API of `CrowdSec`, if its decisions are followed.
    pub crowdsec: Option<Crowdsec>,
    /// The cluster of this host, if any.
    pub cluster: Option<Cluster>,
    /// The routes for a BGP speaker, if bans become routes.
    pub upstream: Option<Upstream>,
    /// The key spaces, and who may ask about them.
    pub keys: KeysConfig,
}

impl Config {
    /// The attacks that the daemon looks for: those with tables, and all others that are only
    /// reported.
    pub fn attack_rules(&self) -> Rules {
        let mut rules = self.attacks.clone();
        if self.report {
            for kind in Kind::ALL {
                rules.entry(*kind).or_insert_with(|| Rule::of(*kind));
            }
        }
        rules
    }

    /// Whether a policy is for all sources of some interface.
    pub fn is_of_interface(&self, policy: &str) -> bool {
        let mut interfaces = self.interfaces.iter();
        interfaces.any(|it| it.policy.as_deref() == Some(policy))
    }

    /// The policy of sources that no prefix selects, of those that come by the interface of a name.
    pub fn policy_on(&self, interface: Option<&str>) -> &str {
        let on = self.interface(interface);
        on.and_then(|on| on.policy.as_deref()).unwrap_or(DEFAULT)
    }

    /// Whether nothing is dropped that comes by the interface of a name.
    pub fn observes_on(&self, interface: Option<&str>) -> bool {
        self.observe || self.interface(interface).is_some_and(|on| on.observe)
    }

    /// Returns the limits of the named interface that replace those of the node, if any.
    pub fn node_of(&self, interface: &str) -> NodeConfig {
        let own = self.interface(Some(interface));
        own.and_then(|on| on.node.clone()).unwrap_or_default()
    }

    /// Whether the named interface has limits that replace those of the node.
    pub fn has_own_node(&self, interface: &str) -> bool {
        let on = self.interface(Some(interface));
        on.is_some_and(|on| on.node.is_some())
    }

    /// The destinations that it names, in tables and in classes, each as a message names it.
    /// Everything together is somewhere here.
    pub fn named_destinations(&self) -> impl Iterator<Item = (String, Prefix)> {
        let tables = self.destinations.keys();
        let tables = tables.map(|prefix| (format!("[destination.\"{prefix}\"]"), *prefix));
        let classes = self.classes.iter().flat_map(|(name, class, _)| {
            let prefixes = class.parts().destination.clone().unwrap_or_default();
            let of = move |prefix| {
                (
                    format!("`destination = \"{prefix}\"` of [class.{name}]"),
                    prefix,
                )
            };
            prefixes.into_iter().map(of)
        });
        tables
            .chain(classes)
            .filter(|(_, prefix)| !prefix.is_empty())
    }

    /// Returns the destinations that packets to this host never have, according to `leads_into`.
    ///
    /// # Errors
    ///
    /// The first error of `leads_into`.
    pub fn destinations_elsewhere<E>(
        &self,
        mut leads_into: impl FnMut(Prefix) -> Result<bool, E>,
    ) -> Result<Vec<(String, Prefix)>, E> {
        let mut elsewhere = Vec::new();
        for (title, prefix) in self.named_destinations() {
            if !leads_into(prefix)? {
                elsewhere.push((title, prefix));
            }
        }
        Ok(elsewhere)
    }

    /// Returns a warning if packets of an interface of this kind are judged twice, inside the
    /// tunnel and behind it, with a hint.
    pub fn judged_twice(&self, name: &str, kind: Option<&str>) -> Option<String> {
        let tunnel = kind.and_then(tunnels::of_device)?;
        let has = |is_it: bool| self.interfaces.iter().any(|it| (it.name == name) == is_it);
        if !has(true) || !has(false) || !self.source.tunnels.has(tunnel) {
            return None;
        }
        let words = tunnels::words(self.source.tunnels);
        let word = words.iter().find(|word| word.starts_with(tunnel.label()))?;
        Some(format!(
            "`tunnels` of [source] has {word}, so packets of {name} are judged and charged inside \
             of the tunnel, and again at {name}: remove [[interface]] {name}, or \"{word}\" from \
             `tunnels`"
        ))
    }

    /// The first class that asks for a VLAN, as a message names it.
    pub fn class_of_vlan(&self) -> Option<String> {
        let mut classes = self.classes.iter();
        let named = classes.find(|(_, class, _)| class.says(Property::Vlan));
        let named = named.map(|(name, ..)| format!("[class.{name}]"));
        named.or_else(|| {
            let mut inline = self.limits().filter_map(|limit| match limit.class()? {
                Match::Inline(class) => Some(class),
                Match::Named(_) => None,
            });
            let class = inline.find(|class| class.says(Property::Vlan))?;
            Some(format!("a limit of {class}"))
        })
    }

    /// All limits of packets.
    fn limits(&self) -> impl Iterator<Item = &LimitSpec> {
        let policies = iter::once(&self.default_policy).chain(self.policies.values());
        let of_policies = policies.flat_map(|policy| &policy.limits);
        let levels = self.aggregate.ipv4.iter().chain(&self.aggregate.ipv6);
        let of_prefixes = levels.flat_map(|level| &level.limits);
        let destinations = self.destinations.values();
        let of_destinations = destinations.flat_map(|it| it.limits.iter().chain(&it.source_limits));
        let own = self.interfaces.iter().filter_map(|it| it.node.as_ref());
        let of_nodes = own.chain([&self.node]).flat_map(|node| &node.limits);
        let wide = of_prefixes.chain(of_destinations).chain(of_nodes);
        of_policies.chain(wide)
    }

    fn interface(&self, name: Option<&str>) -> Option<&Interface> {
        self.interfaces.iter().find(|it| Some(&*it.name) == name)
    }
}

/// An interface to limit traffic on.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// The mode of attachment.
    pub mode: Mode,
    /// Whether there may be jumbo frames although the interface's MTU does not say so yet.
    pub jumbo: bool,
    /// The pinned XDP program that gets what passes.
    pub next: Option<PathBuf>,
    /// The policy of sources that no prefix selects; `None` is the default one.
    pub policy: Option<String>,
    /// Limits of its packets that replace those of the node.
    pub node: Option<NodeConfig>,
    /// Whether packets that would be dropped pass, without bans.
    pub observe: bool,
}

/// The place in the kernel where the program runs.
#[derive(
    Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, IntoStaticStr, Serialize, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Mode {
    /// In the driver if possible, otherwise before the network stack. The result is logged.
    #[default]
    Auto,
    /// In the driver.
    Native,
    /// Before the network stack.
    Generic,
    /// At TCX, beside other programs: after GRO, and before the network stack.
    Tcx,
    /// Not attached: the program is pinned, and another program calls it.
    Pinned,
}

/// The store for the state of sources.
#[derive(Clone, Copy, Debug, Default, Eq, IntoStaticStr, PartialEq, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum StateStore {
    /// In LRU hash maps: the sources that were not seen for longest are forgotten.
    #[default]
    Lru,
    /// In tables of sets, in which nothing that was used is forgotten.
    Compact,
}

/// Definition of a source.
#[derive(Clone, Debug, Eq, PartialEq, SmartDefault)]
pub struct SourceConfig {
    /// Leading bits of an IPv4 address, 1 to 32.
    #[default = 32]
    pub ipv4_prefix: u8,
    /// Leading bits of an IPv6 address, 1 to 128.
    #[default = 64]
    pub ipv6_prefix: u8,
    /// The store for their state.
    pub store: StateStore,
    /// Sources of each family that can have state.
    #[default(SOURCES_DEFAULT)]
    pub capacity: u32,
    /// Sliding logs that there is room for, one for each source and limit of both families.
    #[default(LOGS_DEFAULT)]
    pub logs: u32,
    /// Tunnels whose inner packet determines the source.
    #[default(Tunnels::NONE)]
    pub tunnels: Tunnels,
}

impl SourceConfig {
    /// Whether the tables of the other one serve this one too.
    pub fn has_tables_of(&self, other: &Self) -> bool {
        Self {
            tunnels: other.tunnels,
            ..self.clone()
        } == *other
    }

    /// The bits of an address that make it a source.
    pub fn mask<A: IpAddress>(&self) -> A {
        A::mask(match A::IP_FAMILY {
            IpFamily::V4 => self.ipv4_prefix,
            IpFamily::V6 => self.ipv6_prefix,
        })
    }

    /// The source that an address belongs to.
    pub fn around(&self, address: IpAddr) -> Prefix {
        let length = match address {
            IpAddr::V4(_) => self.ipv4_prefix,
            // As `Address::source`.
            IpAddr::V6(address) if Ipv6::from(address).is_link_local() => Ipv6::BITS,
            IpAddr::V6(_) => self.ipv6_prefix,
        };
        Prefix::around(address, length).unwrap_or_else(|| address.into())
    }
}

/// A policy.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PolicyConfig {
    /// The sources that it is for, sorted; empty for the default policy, and only for it.
    pub sources: Vec<Prefix>,
    /// The limits, at most 8. A policy without limits must say `limits = []`.
    pub limits: Vec<LimitSpec>,
    /// Whether it drops every packet of its sources. It has no limits then.
    pub drops: bool,
    /// Whether to count and pass what it would drop.
    pub observe: bool,
    /// The rule for banning sources that keep exceeding the limits; `None` for no bans.
    pub ban: Option<BanSpec>,
    /// The second limits of each source for established TCP connections with this host. Empty for
    /// none.
    pub established: Vec<LimitSpec>,
    /// The TCP connections that a source may have with this host; `None` for any number.
    pub connections: Option<NonZeroU32>,
}

/// The limits of the wider prefixes around a source, each of its own length, from the narrowest to
/// the widest.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct AggregateConfig {
    /// Prefixes of IPv4, wider than a source.
    pub ipv4: Vec<LevelConfig>,
    /// Prefixes of IPv6, wider than a source.
    pub ipv6: Vec<LevelConfig>,
    /// Whether to count and pass what they would drop.
    pub observe: bool,
}

/// The limits that all sources of a prefix share.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LevelConfig {
    /// The length of the prefix.
    pub prefix: u8,
    /// The limits, 1 to 8.
    pub limits: Vec<LimitSpec>,
}

impl AggregateConfig {
    /// The prefixes of a family.
    pub fn levels(&self, family: IpFamily) -> &[LevelConfig] {
        match family {
            IpFamily::V4 => &self.ipv4,
            IpFamily::V6 => &self.ipv6,
        }
    }

    pub(super) fn levels_mut(&mut self, family: IpFamily) -> &mut Vec<LevelConfig> {
        match family {
            IpFamily::V4 => &mut self.ipv4,
            IpFamily::V6 => &mut self.ipv6,
        }
    }
}

/// Limits of packets to the addresses of a prefix.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct DestinationConfig {
    /// Limits of all packets together, at most 8.
    pub limits: Vec<LimitSpec>,
    /// Limits of each source's packets, at most 8.
    pub source_limits: Vec<LimitSpec>,
    /// Whether to count and pass what they would drop.
    pub observe: bool,
}

/// Limits of all packets, or of those of one interface.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NodeConfig {
    /// The limits, at most 8.
    pub limits: Vec<LimitSpec>,
    /// Whether to count and pass what they would drop.
    pub observe: bool,
    /// Whether a part of each is kept for sources that proved themselves, while others have to.
    pub prefers_verified: bool,
}

/// The configured clock for limits.
#[derive(Deserialize, IntoStaticStr, JsonSchema, Serialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum ClockWish {
    /// The coarse clock if it keeps every limit within the promised error, otherwise the
    /// precise one.
    #[default]
    Auto,
    /// The precise clock, with nanoseconds.
    Precise,
    /// The coarse clock, with the kernel's tick.
    Coarse,
}

/// The fate of the datapath when the daemon stops.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Deserialize, IntoStaticStr, VariantArray)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum OnStop {
    /// Keeps enforcing.
    #[default]
    Keep,
    /// It is detached, and its state is gone.
    Detach,
}

/// The paths of the daemon's files.
#[derive(Clone, Debug, Eq, PartialEq, SmartDefault)]
pub struct Paths {
    /// Pinned maps and links, on a bpffs: `/sys/fs/bpf/ratelimit`.
    #[default = "/sys/fs/bpf/ratelimit"]
    pub pins: PathBuf,
    /// The database: `/var/lib/ratelimit`.
    #[default = "/var/lib/ratelimit"]
    pub state: PathBuf,
    /// The control socket and the lock: `/run/ratelimit`.
    #[default = "/run/ratelimit"]
    pub runtime: PathBuf,
}

/// The default address for metrics.
pub fn default_metrics() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 9798).into()
}
