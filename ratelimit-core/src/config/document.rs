//! The contents of all files with the positions of the values, before validation.

use std::{net::SocketAddr, path::PathBuf};

use smart_default::SmartDefault;
use toml::de::DeTable;

use super::{
    aggregate::{self, Aggregate, RawNode},
    bans, challenge,
    class::{self, NamedClass},
    cluster::{self, Cluster},
    crowdsec::{self, Crowdsec},
    destination::{self, Destination},
    detection::{self, DetectionConfig},
    history, interface, keys,
    limit::Group,
    list::{self, NamedList},
    model::{ClockWish, OnStop, Paths, SourceConfig, StateStore, default_metrics},
    new_sources,
    policy::{self, Policy},
    prefixes,
    report::{At, Report, Spot},
    snapshot,
    table::{Section, Value},
    tunnels, upstream,
};
use crate::{
    class::Match, diagnostic::Problem, new_sources::NewSources, prefix::Prefix, upstream::Upstream,
};

/// The most sources of a family that can have state.
const SOURCES_MAX: u32 = 1 << 27;

/// The most sliding logs that there can be room for.
const LOGS_MAX: u32 = 1 << 24;

/// The bits of a tag are 64.
const COMPACT_IPV6_PREFIX_MAX: u32 = 64;

/// The contents of a file, or of several that were merged.
#[derive(Default)]
pub struct Document {
    /// `None` for an interface with reported errors.
    pub interfaces: Vec<Option<interface::Located>>,
    pub source: Option<At<SourceConfig>>,
    pub new_sources: Option<At<Option<NewSources>>>,
    pub challenge: Option<At<challenge::Located>>,
    pub classes: Vec<NamedClass>,
    pub policies: Vec<Policy>,
    pub aggregate: Option<At<Aggregate>>,
    pub destinations: Vec<Destination>,
    pub node: Option<At<RawNode>>,
    pub detection: Option<At<DetectionConfig>>,
    pub bans: Option<At<bans::Bans>>,
    pub allow: Vec<At<Prefix>>,
    pub protected: Vec<At<Prefix>>,
    pub lists: Vec<NamedList>,
    pub observe: Option<At<bool>>,
    pub clock: Option<At<ClockWish>>,
    pub on_stop: Option<At<OnStop>>,
    pub paths: Option<At<Paths>>,
    pub metrics: Option<At<Metrics>>,
    pub history: Option<At<history::History>>,
    pub snapshot: Option<At<snapshot::Snapshots>>,
    pub crowdsec: Option<At<Crowdsec>>,
    pub cluster: Option<At<Cluster>>,
    pub upstream: Option<At<Upstream>>,
    pub keys: keys::Located,
}

impl Document {
    /// Reads a file: lists from several files are concatenated, everything else may occur once.
    pub fn read<'f>(&mut self, file: usize, table: DeTable<'f>, report: &'f Report<'f>) {
        let mut file = Section::root(file, table, report);
        let root = &mut file;
        set_value(&mut self.observe, root, "observe", Value::boolean);
        set_value(&mut self.clock, root, "clock", Value::choice);
        set_value(&mut self.on_stop, root, "on_stop", Value::choice);
        let interfaces = root.take("interface").into_iter();
        self.interfaces
            .extend(interfaces.flat_map(interface::read_all));
        set_table(&mut self.source, root, "source", |section| {
            let (source, new_sources) = read_source(section);
            self.new_sources = new_sources.or(self.new_sources.take());
            source
        });
        set_table(&mut self.challenge, root, "challenge", challenge::read);
        self.classes
            .extend(root.take_table("class").map_or(vec![], class::read_all));
        self.policies
            .extend(root.take_table("policy").map_or(vec![], policy::read_all));
        set_table(
            &mut self.aggregate,
            root,
            "subnet",
            aggregate::read_aggregate,
        );
        self.destinations.extend(
            root.take_table("destination")
                .map_or(vec![], destination::read_all),
        );
        set_table(&mut self.node, root, "node", aggregate::read_node);
        set_table(&mut self.detection, root, "detection", detection::read);
        set_table(&mut self.bans, root, "ban", bans::read);
        self.allow
            .extend(root.take_table("allow").map_or(vec![], read_sources));
        self.protected
            .extend(root.take_table("protected").map_or(vec![], read_sources));
        set_table(&mut self.crowdsec, root, "crowdsec", crowdsec::read);
        set_table(&mut self.cluster, root, "cluster", cluster::read);
        set_table(&mut self.upstream, root, "upstream", upstream::read);
        self.lists
            .extend(root.take_table("list").map_or(vec![], list::read_all));
        if let Some(keys) = root.take_table("keys") {
            self.keys.read(keys);
        }
        set_table(&mut self.metrics, root, "metrics", read_metrics);
        set_table(&mut self.history, root, "history", history::read);
        set_table(&mut self.snapshot, root, "snapshot", snapshot::read);
        set_table(&mut self.paths, root, "paths", read_paths);
        file.finish();
    }

    /// All limits, those that a packet is charged to together side by side.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let policies = self.policies.iter().map(|policy| Group {
            title: policy.title.clone(),
            limits: policy.limits.iter().collect(),
        });
        let aggregate = self.aggregate.iter().flat_map(|at| at.value.groups());
        let destinations = self.destinations.iter().flat_map(Destination::groups);
        let node = self.node.iter().map(|at| Group {
            title: "[node]".to_owned(),
            limits: at.value.limits.iter().collect(),
        });
        let interfaces = self.interfaces.iter().flatten();
        let interfaces = interfaces.filter_map(interface::Located::group);
        let detection = self.detection.iter().flat_map(|at| &at.value.limits);
        let detection = detection.map(|limit| Group {
            title: detection::TITLE.to_owned(),
            limits: vec![limit],
        });
        policies
            .chain(aggregate)
            .chain(destinations)
            .chain(interfaces)
            .chain(node)
            .chain(detection)
            .collect()
    }

    /// Every class that a limit counts or the challenge names.
    pub fn used_classes(&self) -> impl Iterator<Item = (Match, &Spot)> {
        let limits = self.groups().into_iter().flat_map(|group| group.limits);
        let counted = limits.filter_map(|limit| Some((limit.value.class()?.clone(), &limit.spot)));
        let challenged = self.challenged_classes();
        counted.chain(challenged.map(|at| (Match::Named(at.value.clone()), &at.spot)))
    }

    /// The names of the classes of which SYNs are challenged.
    pub fn challenged_classes(&self) -> impl Iterator<Item = &At<String>> {
        self.challenge.iter().flat_map(|at| &at.value.classes)
    }
}

/// The network listener.
#[derive(Clone, Debug, SmartDefault)]
pub struct Metrics {
    /// The address, if metrics are served.
    #[default(Some(default_metrics()))]
    pub listen: Option<SocketAddr>,
    /// Whether the dashboard, too.
    pub dashboard: bool,
    /// The file with the token that lets the dashboard change bans.
    pub token_file: Option<PathBuf>,
}

/// Reads the value of `key`, which only one file may give.
fn set_value<'f, T>(
    place: &mut Option<At<T>>,
    root: &mut Section<'f>,
    key: &'static str,
    read: impl FnOnce(&Value<'f>) -> Option<T>,
) {
    let next = root.take(key).and_then(|value| value.located(read));
    set_once(place, next, &format!("`{key}`"), root.report);
}

/// Reads the table of this name, which only one file may have.
fn set_table<'f, T, R: Into<Option<At<T>>>>(
    place: &mut Option<At<T>>,
    root: &mut Section<'f>,
    key: &'static str,
    read: impl FnOnce(Section<'f>) -> R,
) {
    let next = root.take_table(key).and_then(|table| read(table).into());
    set_once(place, next, &format!("[{key}]"), root.report);
}

fn set_once<T>(place: &mut Option<At<T>>, next: Option<At<T>>, what: &str, report: &Report) {
    if let (Some(first), Some(next)) = (&*place, &next) {
        let what = format!("{what} is set twice");
        report.add_repeated(&next.spot, &first.spot, &what, "keep one of them");
    }
    if next.is_some() {
        *place = next;
    }
}

/// Reads `[source]`, including the budget for new sources.
fn read_source(mut section: Section<'_>) -> (At<SourceConfig>, Option<At<Option<NewSources>>>) {
    let default = SourceConfig::default();
    let ipv4_prefix = section.integer("ipv4_prefix", 1..=32, default.ipv4_prefix.into());
    let ipv6_prefix = section.integer("ipv6_prefix", 1..=128, default.ipv6_prefix.into());
    let capacity = section.integer("capacity", 1..=SOURCES_MAX, default.capacity);
    let logs = section.integer("sliding_logs", 1..=LOGS_MAX, default.logs);
    let tunnels = section.take("tunnels");
    let tunnels = tunnels.map_or(default.tunnels, tunnels::read);
    let store = section.take("store");
    let chosen = store.as_ref().and_then(Value::choice);
    if let Some(store) = store
        && chosen == Some(StateStore::Compact)
        && ipv6_prefix > COMPACT_IPV6_PREFIX_MAX
    {
        let message = format!(
            "the compact store distinguishes {COMPACT_IPV6_PREFIX_MAX} bits of IPv6 sources, but \
             ipv6_prefix is {ipv6_prefix}"
        );
        let hint =
            format!("write ipv6_prefix = {COMPACT_IPV6_PREFIX_MAX} or less, or store = \"lru\"");
        store.complain(message, hint);
    }
    let value = SourceConfig {
        ipv4_prefix: u8::try_from(ipv4_prefix).expect("at most 32"),
        ipv6_prefix: u8::try_from(ipv6_prefix).expect("at most 128"),
        store: chosen.unwrap_or(default.store),
        capacity,
        logs,
        tunnels,
    };
    let new_sources = section.take("new_sources");
    let new_sources = new_sources.and_then(|at| new_sources::read(at, &value));
    let spot = section.finish();
    (At { value, spot }, new_sources)
}

fn read_sources(mut section: Section<'_>) -> Vec<At<Prefix>> {
    let sources = section.take("sources");
    section.finish();
    sources.map_or(vec![], prefixes::read)
}

fn read_metrics(mut section: Section<'_>) -> At<Metrics> {
    const HINT: &str = "write \"127.0.0.1:9798\", or false for none";
    let listen = section.take("listen").and_then(|value| {
        value.unless_false("it is not said where", HINT, |value| {
            let text = value.text("\"127.0.0.1:9798\", or false for none")?;
            let wrong = |_| Problem::new(format!("`{text}` is not an address with a port"), HINT);
            value.accept(text.parse::<SocketAddr>().map_err(wrong))
        })
    });
    let dashboard = section.flag("dashboard");
    let token_file = section.take("token_file");
    let token_file = token_file.and_then(|value| {
        let file = value.absolute_path("token_file = \"/etc/ratelimit/dashboard.token\"")?;
        if dashboard {
            return Some(file);
        }
        let message = "`token_file` is for the dashboard, which [metrics] does not enable";
        value.refuse(message, "write dashboard = true beside it, or remove it")
    });
    let value = Metrics {
        listen: listen.unwrap_or(Metrics::default().listen),
        dashboard,
        token_file,
    };
    let spot = section.finish();
    At { value, spot }
}

fn read_paths(mut section: Section<'_>) -> At<Paths> {
    let mut path = |key, default: PathBuf| {
        let example = format!("\"{}\"", default.display());
        let value = section.take(key);
        let value = value.and_then(|value| value.absolute_path(&example));
        value.unwrap_or(default)
    };
    let default = Paths::default();
    let value = Paths {
        pins: path("pins", default.pins),
        state: path("state", default.state),
        runtime: path("runtime", default.runtime),
    };
    let spot = section.finish();
    At { value, spot }
}
