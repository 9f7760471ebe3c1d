//! What the files say, each value with its place, before it is known whether all of it fits together.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    ClockWish, Crowdsec, OnStop, Paths, Source, StateStore, challenge,
    class::{self, NamedClass},
    cluster::{self, Cluster},
    crowdsec, default_metrics,
    destination::{self, Destination},
    detection::{self, Detection},
    group::Group,
    history, inner, interface,
    list::{self, NamedList},
    new_sources,
    policy::{self, Policy},
    prefixes,
    report::{At, Report},
    table::{Section, Value},
    wide::{self, Aggregate, Node},
};
use crate::{diagnostic::Problem, new_sources::NewSources, prefix::Prefix};

/// The most sources of a family that can have state.
const SOURCES_MAX: u32 = 1 << 27;

/// The most sliding logs that there can be room for.
const LOGS_MAX: u32 = 1 << 24;

const CLOCKS: [(&str, ClockWish); 3] = [
    ("auto", ClockWish::Auto),
    ("precise", ClockWish::Precise),
    ("coarse", ClockWish::Coarse),
];

const STORES: [(&str, StateStore); 2] =
    [("lru", StateStore::Lru), ("compact", StateStore::Compact)];

/// The bits of a tag are 64.
const COMPACT_IPV6_PREFIX_MAX: u32 = 64;

const ON_STOP: [(&str, OnStop); 2] = [("keep", OnStop::Keep), ("detach", OnStop::Detach)];

/// The contents of a file, or of several that were merged.
#[derive(Default)]
pub struct Document {
    /// `None` in place of what is wrong, and reported.
    pub interfaces: Vec<Option<interface::Located>>,
    pub source: Option<At<Source>>,
    pub new_sources: Option<At<Option<NewSources>>>,
    pub challenge: Option<At<challenge::Located>>,
    pub classes: Vec<NamedClass>,
    pub policies: Vec<Policy>,
    pub aggregate: Option<At<Aggregate>>,
    pub destinations: Vec<Destination>,
    pub node: Option<At<Node>>,
    pub detection: Option<At<Detection>>,
    pub allow: Vec<At<Prefix>>,
    pub protected: Vec<At<Prefix>>,
    pub lists: Vec<NamedList>,
    pub observe: Option<At<bool>>,
    pub clock: Option<At<ClockWish>>,
    pub on_stop: Option<At<OnStop>>,
    pub paths: Option<At<Paths>>,
    pub metrics: Option<At<Metrics>>,
    pub history: Option<At<history::History>>,
    pub crowdsec: Option<At<Crowdsec>>,
    pub cluster: Option<At<Cluster>>,
}

impl Document {
    /// Reads the file with the index `file`.
    pub fn read(file: usize, table: DeTable<'_>, report: &mut Report) -> Self {
        let mut root = Section::root(file, table);
        let observe = root.take("observe");
        let clock = root.take("clock");
        let on_stop = root.take("on_stop");
        let interfaces = root.take("interface");
        let source = root.take_table("source", report);
        let challenge = root.take_table("challenge", report);
        let classes = root.take_table("class", report);
        let policies = root.take_table("policy", report);
        let aggregate = root.take_table("aggregate", report);
        let destinations = root.take_table("destination", report);
        let node = root.take_table("node", report);
        let detection = root.take_table("detection", report);
        let allow = root.take_table("allow", report);
        let protected = root.take_table("protected", report);
        let crowdsec = root.take_table("crowdsec", report);
        let cluster = root.take_table("cluster", report);
        let lists = root.take_table("list", report);
        let metrics = root.take_table("metrics", report);
        let history = root.take_table("history", report);
        let paths = root.take_table("paths", report);
        root.finish(report);
        let (source, new_sources) = source.map(|section| read_source(section, report)).unzip();
        Self {
            observe: observe.and_then(|value| value.boolean(report)),
            clock: clock.and_then(|value| value.choice(&CLOCKS, report)),
            on_stop: on_stop.and_then(|value| value.choice(&ON_STOP, report)),
            interfaces: interfaces.map_or(vec![], |value| interface::read_all(value, report)),
            source,
            new_sources: new_sources.flatten(),
            challenge: challenge.map(|section| challenge::read(section, report)),
            classes: classes.map_or(vec![], |section| class::read_all(section, report)),
            policies: policies.map_or(vec![], |section| policy::read_all(section, report)),
            aggregate: aggregate.map(|section| wide::read_aggregate(section, report)),
            destinations: destinations
                .map_or(vec![], |section| destination::read_all(section, report)),
            node: node.map(|section| wide::read_node(section, report)),
            detection: detection.map(|section| detection::read(section, report)),
            allow: allow.map_or(vec![], |section| read_sources(section, report)),
            protected: protected.map_or(vec![], |section| read_sources(section, report)),
            lists: lists.map_or(vec![], |section| list::read_all(section, report)),
            metrics: metrics.map(|section| read_metrics(section, report)),
            history: history.map(|section| history::read(section, report)),
            crowdsec: crowdsec.and_then(|section| crowdsec::read(section, report)),
            cluster: cluster.and_then(|section| cluster::read(section, report)),
            paths: paths.map(|section| read_paths(section, report)),
        }
    }

    /// Adds what a file of `conf.d` says: lists grow, everything else can be said once.
    pub fn merge(mut self, next: Self, report: &mut Report) -> Self {
        self.interfaces.extend(next.interfaces);
        self.classes.extend(next.classes);
        self.policies.extend(next.policies);
        self.destinations.extend(next.destinations);
        self.allow.extend(next.allow);
        self.protected.extend(next.protected);
        self.lists.extend(next.lists);
        set_once("`observe`", &mut self.observe, next.observe, report);
        set_once("`clock`", &mut self.clock, next.clock, report);
        set_once("`on_stop`", &mut self.on_stop, next.on_stop, report);
        set_once("[source]", &mut self.source, next.source, report);
        self.new_sources = next.new_sources.or(self.new_sources);
        set_once("[challenge]", &mut self.challenge, next.challenge, report);
        set_once("[aggregate]", &mut self.aggregate, next.aggregate, report);
        set_once("[node]", &mut self.node, next.node, report);
        set_once("[detection]", &mut self.detection, next.detection, report);
        set_once("[crowdsec]", &mut self.crowdsec, next.crowdsec, report);
        set_once("[cluster]", &mut self.cluster, next.cluster, report);
        set_once("[metrics]", &mut self.metrics, next.metrics, report);
        set_once("[history]", &mut self.history, next.history, report);
        set_once("[paths]", &mut self.paths, next.paths, report);
        self
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

    /// Every name of a class that a limit or the challenge mentions.
    pub fn mentions(&self) -> impl Iterator<Item = &At<String>> {
        let policies = self.policies.iter().flat_map(|policy| &policy.mentions);
        let aggregate = self.aggregate.iter().flat_map(|at| &at.value.mentions);
        let node = self.node.iter().flat_map(|at| &at.value.mentions);
        let detection = self.detection.iter().flat_map(|at| &at.value.mentions);
        let destinations = self.destinations.iter().flat_map(|it| &it.mentions);
        let interfaces = self.interfaces.iter().flatten();
        let interfaces = interfaces.filter_map(|it| it.node.as_ref());
        let interfaces = interfaces.flat_map(|node| &node.mentions);
        let wide = aggregate.chain(destinations).chain(interfaces).chain(node);
        let limits = policies.chain(wide).chain(detection);
        limits.chain(self.challenged_classes())
    }

    /// The names of the classes of which SYNs are challenged.
    pub fn challenged_classes(&self) -> impl Iterator<Item = &At<String>> {
        self.challenge.iter().flat_map(|at| &at.value.classes)
    }
}

/// What is served to the network.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Where; `None` is nowhere.
    pub listen: Option<SocketAddr>,
    /// Whether the dashboard, too.
    pub dashboard: bool,
    /// The file with the token that lets the dashboard change bans.
    pub token_file: Option<PathBuf>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            listen: Some(default_metrics()),
            dashboard: false,
            token_file: None,
        }
    }
}

fn set_once<T>(what: &str, place: &mut Option<At<T>>, next: Option<At<T>>, report: &mut Report) {
    if let (Some(first), Some(next)) = (&*place, &next) {
        let what = format!("{what} is set twice");
        report.add_repeated(&next.spot, &first.spot, &what, "keep one of them");
    }
    if next.is_some() {
        *place = next;
    }
}

/// Reads what a source is, and how many may come anew.
fn read_source(
    mut section: Section<'_>,
    report: &mut Report,
) -> (At<Source>, Option<At<Option<NewSources>>>) {
    let default = Source::default();
    let mut integer = |key, range, default| {
        let value = section.take(key);
        let value = value.and_then(|value: Value<'_>| value.integer_in(range, default, report));
        value.unwrap_or(default)
    };
    let ipv4_prefix = integer("ipv4_prefix", 1..=32, default.ipv4_prefix.into());
    let ipv6_prefix = integer("ipv6_prefix", 1..=128, default.ipv6_prefix.into());
    let capacity = integer("capacity", 1..=SOURCES_MAX, default.capacity);
    let logs = integer("logs", 1..=LOGS_MAX, default.logs);
    let inner = section.take("inner");
    let inner = inner.map_or(default.inner, |value| inner::read(value, report));
    let store = section.take("store");
    let store = store.and_then(|value| value.choice(&STORES, report));
    if let Some(At { value, spot }) = &store
        && *value == StateStore::Compact
        && ipv6_prefix > COMPACT_IPV6_PREFIX_MAX
    {
        let message = format!(
            "a compact store tells IPv6 sources apart by {COMPACT_IPV6_PREFIX_MAX} bits, and ipv6_prefix is {ipv6_prefix}"
        );
        let hint =
            format!("write ipv6_prefix = {COMPACT_IPV6_PREFIX_MAX} or less, or store = \"lru\"");
        report.add(spot, Problem::new(message, hint));
    }
    let value = Source {
        ipv4_prefix: u8::try_from(ipv4_prefix).expect("at most 32"),
        ipv6_prefix: u8::try_from(ipv6_prefix).expect("at most 128"),
        store: store.map_or(default.store, |at| at.value),
        capacity,
        logs,
        inner,
    };
    let new_sources = section.take("new_sources");
    let new_sources = new_sources.and_then(|at| new_sources::read(at, &value, report));
    let spot = section.spot.clone();
    section.finish(report);
    (At { value, spot }, new_sources)
}

fn read_sources(mut section: Section<'_>, report: &mut Report) -> Vec<At<Prefix>> {
    let sources = section.take("sources");
    section.finish(report);
    sources.map_or(vec![], |value| prefixes::read(value, report))
}

fn read_metrics(mut section: Section<'_>, report: &mut Report) -> At<Metrics> {
    let listen = section.take("listen");
    let dashboard = section.flag("dashboard", report);
    let token_file = section.take("token_file");
    let token_file = token_file.and_then(|value| read_token_file(value, dashboard, report));
    let listen = listen.and_then(|value| read_listen(value, report));
    let spot = section.spot.clone();
    section.finish(report);
    let value = Metrics {
        listen: listen.map_or_else(|| Metrics::default().listen, |listen| listen.value),
        dashboard,
        token_file,
    };
    At { value, spot }
}

/// The file of the token that lets the dashboard change bans.
fn read_token_file(value: Value<'_>, dashboard: bool, report: &mut Report) -> Option<PathBuf> {
    const EXAMPLE: &str = "token_file = \"/etc/ratelimit/dashboard.token\"";
    let At { value, spot } = value.absolute_path(EXAMPLE, report)?;
    if dashboard {
        return Some(value);
    }
    let message = "`token_file` is of the dashboard, which [metrics] does not serve";
    let hint = "write dashboard = true beside it, or remove it";
    report.add(&spot, Problem::new(message, hint));
    None
}

/// An address with a port, or `false`.
fn read_listen(value: Value<'_>, report: &mut Report) -> Option<At<Option<SocketAddr>>> {
    const HINT: &str = "write \"127.0.0.1:9798\", or false for none";
    let problem = if value.is_boolean() {
        let flag = value.boolean(report)?;
        if !flag.value {
            return Some(flag.map(|_| None));
        }
        (
            flag.spot,
            "`listen` is true: it is not said where".to_owned(),
        )
    } else {
        let text = value.text("\"127.0.0.1:9798\", or false for none", report)?;
        if let Ok(address) = text.value.parse() {
            return Some(text.map(|_| Some(address)));
        }
        let message = format!("`{}` is no address with a port", text.value);
        (text.spot, message)
    };
    report.add(&problem.0, Problem::new(problem.1, HINT));
    None
}

fn read_paths(mut section: Section<'_>, report: &mut Report) -> At<Paths> {
    let default = Paths::default();
    let mut path = |key, default: PathBuf| {
        let value = section.take(key);
        let value = value.and_then(|value| read_path(value, &default, report));
        value.unwrap_or(default)
    };
    let value = Paths {
        pins: path("pins", default.pins),
        state: path("state", default.state),
        runtime: path("runtime", default.runtime),
    };
    let spot = section.spot.clone();
    section.finish(report);
    At { value, spot }
}

fn read_path(value: Value<'_>, example: &Path, report: &mut Report) -> Option<PathBuf> {
    let example = format!("\"{}\"", example.display());
    let text = value.text(&example, report)?;
    let path = PathBuf::from(&text.value);
    if path.is_absolute() {
        return Some(path);
    }
    let message = format!("`{}` is not an absolute path", text.value);
    let hint = format!("write one that begins with /, such as {example}");
    report.add(&text.spot, Problem::new(message, hint));
    None
}
