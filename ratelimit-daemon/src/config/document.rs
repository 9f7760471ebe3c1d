//! What the files say, each value with its place, before it is known whether all of it fits together.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use toml::de::DeTable;

use super::{
    ClockWish, Interface, OnStop, Paths, Source,
    diagnostic::Problem,
    interface,
    policy::{self, Policy},
    prefixes,
    report::{At, Report},
    table::{Section, Value},
};
use crate::prefix::Prefix;

/// The most sources of a family that can be remembered.
const SOURCES_MAX: u32 = 1 << 27;

/// The most sliding logs that can be remembered.
const LOGS_MAX: u32 = 1 << 24;

const CLOCKS: [(&str, ClockWish); 3] = [
    ("auto", ClockWish::Auto),
    ("precise", ClockWish::Precise),
    ("coarse", ClockWish::Coarse),
];

const ON_STOP: [(&str, OnStop); 2] = [("keep", OnStop::Keep), ("detach", OnStop::Detach)];

/// The contents of a file, or of several that were merged.
#[derive(Default)]
pub struct Document {
    /// `None` in place of what is wrong, and reported.
    pub interfaces: Vec<Option<At<Interface>>>,
    pub source: Option<At<Source>>,
    pub policies: Vec<Policy>,
    pub allow: Vec<At<Prefix>>,
    pub observe: Option<At<bool>>,
    pub clock: Option<At<ClockWish>>,
    pub on_stop: Option<At<OnStop>>,
    pub paths: Option<At<Paths>>,
    pub metrics: Option<At<Option<SocketAddr>>>,
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
        let policies = root.take_table("policy", report);
        let allow = root.take_table("allow", report);
        let metrics = root.take_table("metrics", report);
        let paths = root.take_table("paths", report);
        root.finish(report);
        Self {
            observe: observe.and_then(|value| value.boolean(report)),
            clock: clock.and_then(|value| value.choice(&CLOCKS, report)),
            on_stop: on_stop.and_then(|value| value.choice(&ON_STOP, report)),
            interfaces: interfaces.map_or(vec![], |value| interface::read_all(value, report)),
            source: source.map(|section| read_source(section, report)),
            policies: policies.map_or(vec![], |section| policy::read_all(section, report)),
            allow: allow.map_or(vec![], |section| read_allow(section, report)),
            metrics: metrics.and_then(|section| read_metrics(section, report)),
            paths: paths.map(|section| read_paths(section, report)),
        }
    }

    /// Adds what a file of `conf.d` says: lists grow, everything else can be said once.
    pub fn merge(mut self, next: Self, report: &mut Report) -> Self {
        self.interfaces.extend(next.interfaces);
        self.policies.extend(next.policies);
        self.allow.extend(next.allow);
        set_once("`observe`", &mut self.observe, next.observe, report);
        set_once("`clock`", &mut self.clock, next.clock, report);
        set_once("`on_stop`", &mut self.on_stop, next.on_stop, report);
        set_once("[source]", &mut self.source, next.source, report);
        set_once("[metrics]", &mut self.metrics, next.metrics, report);
        set_once("[paths]", &mut self.paths, next.paths, report);
        self
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

fn read_source(mut section: Section<'_>, report: &mut Report) -> At<Source> {
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
    let spot = section.spot.clone();
    section.finish(report);
    let value = Source {
        ipv4_prefix: u8::try_from(ipv4_prefix).expect("at most 32"),
        ipv6_prefix: u8::try_from(ipv6_prefix).expect("at most 128"),
        capacity,
        logs,
    };
    At { value, spot }
}

fn read_allow(mut section: Section<'_>, report: &mut Report) -> Vec<At<Prefix>> {
    let sources = section.take("sources");
    section.finish(report);
    sources.map_or(vec![], |value| prefixes::read(value, report))
}

fn read_metrics(mut section: Section<'_>, report: &mut Report) -> Option<At<Option<SocketAddr>>> {
    let listen = section.take("listen");
    section.finish(report);
    read_listen(listen?, report)
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
