//! The limits of wider prefixes, of the node and of an interface in its place: `[aggregate]`, `[node]` and `[interface.node]`.

use std::collections::BTreeMap;

use ratelimit_common::{aggregate::LEVELS_MAX, limit::LIMITS_MAX};

use super::{
    AggregateConfig, LevelConfig, NodeConfig, Source,
    group::Group,
    limit,
    policy::check_count,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{diagnostic::Problem, ip_family::IpFamily, limit::LimitSpec};

/// `[aggregate]`, with the places of what it says.
pub struct Aggregate {
    pub observe: bool,
    /// Of both families; each limit has a prefix.
    pub limits: Vec<(IpFamily, At<u8>, At<LimitSpec>)>,
    pub mentions: Vec<At<String>>,
}

/// `[node]`, or `node` of an interface, with the places of what it says.
pub struct Node {
    pub observe: bool,
    /// `prefer = "verified"`.
    pub prefer: Option<At<()>>,
    pub limits: Vec<At<LimitSpec>>,
    pub mentions: Vec<At<String>>,
}

/// Who draws first from the limits of the node.
const PREFERRED: [(&str, ()); 1] = [("verified", ())];

/// Reads `[aggregate]`.
pub fn read_aggregate(mut section: Section<'_>, report: &mut Report) -> At<Aggregate> {
    let observe = section.flag("observe", report);
    let spot = section.spot.clone();
    let mut aggregate = Aggregate {
        observe,
        limits: vec![],
        mentions: vec![],
    };
    let (ipv4, ipv6) = (section.take("ipv4"), section.take("ipv6"));
    if ipv4.is_none() && ipv6.is_none() {
        let hint =
            "write ipv4 = [{ prefix = 24, packets = 10_000, per = \"1s\" }], or `ipv6` likewise";
        let message = "[aggregate] has neither `ipv4` nor `ipv6`";
        report.add(&section.spot, Problem::new(message, hint));
    }
    section.finish(report);
    for (family, value) in [(IpFamily::V4, ipv4), (IpFamily::V6, ipv6)] {
        if let Some(value) = value {
            aggregate.read_family(family, value, report);
        }
    }
    At {
        value: aggregate,
        spot,
    }
}

/// Reads `[node]`.
pub fn read_node(mut section: Section<'_>, report: &mut Report) -> At<Node> {
    let prefer = section.take("prefer");
    let spot = section.spot.clone();
    let prefer = prefer.and_then(|value| value.choice(&PREFERRED, report));
    let node = read_limits(section, prefer, report);
    At { value: node, spot }
}

/// Reads `node` of an interface.
pub fn read_node_of_interface(mut section: Section<'_>, report: &mut Report) -> Node {
    if let Some(value) = section.take("prefer") {
        let message = "`prefer` is said for all interfaces together";
        let hint = "write it in [node], and remove it here: it holds for these limits, too";
        report.add(&value.spot, Problem::new(message, hint));
    }
    let title = section.title.clone();
    let node = read_limits(section, None, report);
    for At { value, spot } in &node.limits {
        if value.division().is_some() {
            let message = format!("nodes do not share limits of {title}");
            let hint =
                "remove `scope`, and write the part of each node: the limit divided by the nodes";
            report.add(spot, Problem::new(message, hint));
        }
    }
    node
}

fn read_limits(mut section: Section<'_>, prefer: Option<At<()>>, report: &mut Report) -> Node {
    const EXAMPLE: &str = "limits = [{ packets = 2_000_000, per = \"1s\" }]";
    let title = section.title.clone();
    let observe = section.flag("observe", report);
    let mut node = Node {
        observe,
        prefer,
        limits: vec![],
        mentions: vec![],
    };
    match section.take("limits") {
        None => section.lacks(
            "limits",
            &format!("write {EXAMPLE}, or remove {title}"),
            report,
        ),
        Some(value) if value.is_empty_list() => {
            let message = format!("the `limits` of {title} are none");
            let hint = format!("write {EXAMPLE}, or remove {title}");
            report.add(&value.spot, Problem::new(message, hint));
        }
        Some(value) => {
            let items = value.list(EXAMPLE, report).unwrap_or_default();
            check_count(&title, &items, report);
            let read = |item| limit::read(item, &mut node.mentions, report);
            node.limits = items.into_iter().filter_map(read).collect();
        }
    }
    section.finish(report);
    for At { value, spot } in &node.limits {
        if value.compile().is_log() {
            let message = format!(
                "{title} cannot have a limit by sliding-log: one log would be written by every CPU for every packet"
            );
            let hint = "write algorithm = \"sliding-window\" or \"token-bucket\"";
            report.add(spot, Problem::new(message, hint));
        }
    }
    node
}

impl Aggregate {
    fn read_family(&mut self, family: IpFamily, value: Value<'_>, report: &mut Report) {
        let example = example(family);
        if value.is_empty_list() {
            let message = format!("the `{}` of [aggregate] is empty", key(family));
            let hint = format!("write {example}, or remove it");
            report.add(&value.spot, Problem::new(message, hint));
            return;
        }
        for item in value.list(example, report).unwrap_or_default() {
            let Some(mut section) =
                item.table("a limit of [aggregate]".to_owned(), example, report)
            else {
                continue;
            };
            let prefix = read_prefix(family, &mut section, report);
            let limit = limit::read_section(section, &mut self.mentions, report);
            if let (Some(prefix), Some(limit)) = (prefix, limit) {
                self.limits.push((family, prefix, limit));
            }
        }
    }

    /// The limits of each prefix.
    pub fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<((IpFamily, u8), Group<'_>)> = vec![];
        for (family, prefix, limit) in &self.limits {
            let place = (*family, prefix.value);
            if let Some((_, group)) = groups.iter_mut().find(|(known, _)| *known == place) {
                group.limits.push(limit);
                continue;
            }
            let title = format!("`{}` /{} of [aggregate]", key(*family), prefix.value);
            let limits = vec![limit];
            groups.push((place, Group { title, limits }));
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// What it says, from the narrowest prefix of a family to the widest. It counts only when nothing was reported.
    pub fn compile(&self, source: &Source, report: &mut Report) -> AggregateConfig {
        let mut config = AggregateConfig {
            observe: self.observe,
            ..AggregateConfig::default()
        };
        for (family, prefix, limit) in &self.limits {
            check_prefix(*family, prefix, source, report);
            let levels = config.levels_mut(*family);
            match levels.iter_mut().find(|level| level.prefix == prefix.value) {
                Some(level) => level.limits.push(limit.value.clone()),
                None => levels.push(LevelConfig {
                    prefix: prefix.value,
                    limits: vec![limit.value.clone()],
                }),
            }
        }
        self.check_counts(report);
        for family in IpFamily::ALL {
            let levels = config.levels_mut(family);
            levels.sort_by_key(|level| std::cmp::Reverse(level.prefix));
        }
        config
    }
}

impl Aggregate {
    /// Reports prefixes and limits that are too many.
    fn check_counts(&self, report: &mut Report) {
        let mut seen: BTreeMap<(IpFamily, u8), usize> = BTreeMap::new();
        for (family, prefix, limit) in &self.limits {
            let limits = seen.entry((*family, prefix.value)).or_default();
            *limits += 1;
            let (is_new, is_ninth) = (*limits == 1, *limits == LIMITS_MAX + 1);
            let prefixes = seen.keys().filter(|(of, _)| of == family).count();
            if is_new && prefixes == LEVELS_MAX + 1 {
                let key = key(*family);
                let message = format!("`{key}` of [aggregate] has more than {LEVELS_MAX} prefixes");
                let hint = format!("keep {LEVELS_MAX} lengths; several limits may have the same");
                report.add(&prefix.spot, Problem::new(message, hint));
            }
            if is_ninth {
                let length = prefix.value;
                let message =
                    format!("the /{length} of [aggregate] has more than {LIMITS_MAX} limits");
                let hint = format!("keep {LIMITS_MAX}, the most that a prefix can have");
                report.add(&limit.spot, Problem::new(message, hint));
            }
        }
    }
}

impl Node {
    /// What it says, beside what `[challenge]` says, if it is there. It counts only when nothing was reported.
    pub fn compile_beside<T>(&self, challenge: Option<&T>, report: &mut Report) -> NodeConfig {
        if let (Some(prefer), None) = (&self.prefer, challenge) {
            let message = "`prefer` of [node] is \"verified\", and no source is ever verified";
            let hint = "write [challenge.tcp], and under it when = \"always\", or remove `prefer`";
            report.add(&prefer.spot, Problem::new(message, hint));
        }
        self.compile(self.prefer.is_some())
    }

    /// Its limits.
    pub fn compile(&self, prefers_verified: bool) -> NodeConfig {
        NodeConfig {
            prefers_verified,
            limits: self.limits.iter().map(|at| at.value.clone()).collect(),
            observe: self.observe,
        }
    }
}

/// Reads the length of a prefix; whether it is wider than a source is not known yet.
fn read_prefix(family: IpFamily, section: &mut Section<'_>, report: &mut Report) -> Option<At<u8>> {
    let hint = format!("write for example prefix = {}", usual_prefix(family));
    let value = section.require("prefix", &hint, report)?;
    let spot = value.spot.clone();
    let last = if family == IpFamily::V4 { 32 } else { 128 };
    let value = value.integer_in(1..=last, usual_prefix(family), report)?;
    let value = u8::try_from(value).expect("at most 128");
    Some(At { value, spot })
}

fn check_prefix(family: IpFamily, prefix: &At<u8>, source: &Source, report: &mut Report) {
    let (key, length) = match family {
        IpFamily::V4 => ("ipv4_prefix", source.ipv4_prefix),
        IpFamily::V6 => ("ipv6_prefix", source.ipv6_prefix),
    };
    if prefix.value >= length {
        let message = format!(
            "a /{} is not wider than a source, which is a /{length}",
            prefix.value
        );
        let hint = format!("write a prefix below {length}, or a longer `{key}` in [source]");
        report.add(&prefix.spot, Problem::new(message, hint));
    }
}

const fn key(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ipv4",
        IpFamily::V6 => "ipv6",
    }
}

const fn usual_prefix(family: IpFamily) -> u32 {
    match family {
        IpFamily::V4 => 24,
        IpFamily::V6 => 56,
    }
}

const fn example(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ipv4 = [{ prefix = 24, packets = 10_000, per = \"1s\" }]",
        IpFamily::V6 => "ipv6 = [{ prefix = 56, packets = 10_000, per = \"1s\" }]",
    }
}
