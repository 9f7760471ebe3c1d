//! The limits of wider prefixes, of the node and of an interface in its place: `[subnet]`, `[node]`
//! and `[interface.node]`.

use ratelimit_common::{aggregate::LEVELS_MAX, limit::LIMITS_MAX};

use super::{
    challenge,
    limit::{self, Group},
    model::{AggregateConfig, LevelConfig, NodeConfig, SourceConfig},
    report::{At, Report, values},
    table::{Section, Value},
};
use crate::{challenge::Way, diagnostic::Problem, ip_family::IpFamily, limit::LimitSpec};

/// `[subnet]` with the positions of its values.
pub struct Aggregate {
    pub observe: bool,
    /// Limits of both families; each has a prefix length.
    pub limits: Vec<(IpFamily, At<u8>, At<LimitSpec>)>,
}

/// `[node]`, or `node` of an interface, with the positions of its values.
pub struct RawNode {
    pub observe: bool,
    /// `prefer = "verified"`.
    pub prefer: Option<At<()>>,
    pub limits: Vec<At<LimitSpec>>,
}

/// Sources with precedence in the limits of the node.
const PREFERRED: [(&str, ()); 1] = [("verified", ())];

/// Reads `[subnet]`.
pub fn read_aggregate(mut section: Section<'_>) -> At<Aggregate> {
    let mut aggregate = Aggregate {
        observe: section.flag("observe"),
        limits: vec![],
    };
    let (ipv4, ipv6) = (section.take("ipv4"), section.take("ipv6"));
    if ipv4.is_none() && ipv6.is_none() {
        let hint = "write ipv4 = [{ prefix = 24, packets = 10_000, per = \"1s\" }], or the same \
                    for `ipv6`";
        section.complain("[subnet] has neither `ipv4` nor `ipv6`", hint);
    }
    for (family, value) in [(IpFamily::V4, ipv4), (IpFamily::V6, ipv6)] {
        if let Some(value) = value {
            aggregate.read_family(family, value);
        }
    }
    let spot = section.finish();
    At {
        value: aggregate,
        spot,
    }
}

/// Reads `[node]`.
pub fn read_node(mut section: Section<'_>) -> At<RawNode> {
    let prefer = section.take("prefer");
    let spot = section.spot.clone();
    let prefer = prefer.and_then(|value| value.located(|it| it.one_of(&PREFERRED)));
    let value = read_limits(section, prefer);
    At { value, spot }
}

/// Reads `node` of an interface.
pub fn read_node_of_interface(mut section: Section<'_>) -> RawNode {
    if let Some(value) = section.take("prefer") {
        let hint = "write it in [node], and remove it here: it applies to these limits, too";
        value.complain("`prefer` applies to all interfaces together", hint);
    }
    let (title, report) = (section.title.clone(), section.report);
    let node = read_limits(section, None);
    limit::refuse_shared(&title, &node.limits, report);
    node
}

fn read_limits(mut section: Section<'_>, prefer: Option<At<()>>) -> RawNode {
    const EXAMPLE: &str = "limits = [{ packets = 2_000_000, per = \"1s\" }]";
    let title = section.title.clone();
    let hint = format!("write {EXAMPLE}, or remove {title}");
    let observe = section.flag("observe");
    let limits = section.require("limits", &hint);
    let limits = limits.map_or(vec![], |value| {
        if value.len() == Some(0) {
            value.complain(format!("`limits` of {title} is empty"), hint);
        }
        limit::read_list(value, &title, EXAMPLE)
    });
    limit::refuse_logs(&title, &limits, section.report);
    section.finish();
    RawNode {
        observe,
        prefer,
        limits,
    }
}

impl Aggregate {
    fn read_family(&mut self, family: IpFamily, value: Value<'_>) {
        let example = example(family);
        if value.len() == Some(0) {
            let message = format!("the `{}` of [subnet] is empty", key(family));
            value.complain(message, format!("write {example}, or remove it"));
        }
        for item in value.list(example).unwrap_or_default() {
            let Some(mut section) = item.table("a limit of [subnet]", example) else {
                continue;
            };
            let prefix = read_prefix(family, &mut section);
            let limit = limit::read_section(section);
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
            let title = format!("`{}` /{} of [subnet]", key(*family), prefix.value);
            let limits = vec![limit];
            groups.push((place, Group { title, limits }));
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Returns the configuration, sorted from the narrowest prefix of a family to the widest. It is
    /// valid only if no error was reported.
    pub fn compile(&self, source: &SourceConfig, report: &Report) -> AggregateConfig {
        let mut config = AggregateConfig {
            observe: self.observe,
            ..AggregateConfig::default()
        };
        for (family, prefix, limit) in &self.limits {
            check_prefix(*family, prefix, source, report);
            let levels = config.levels_mut(*family);
            let known = levels.iter().position(|level| level.prefix == prefix.value);
            let place = known.unwrap_or(levels.len());
            if known.is_none() {
                levels.push(LevelConfig {
                    prefix: prefix.value,
                    limits: vec![],
                });
                if levels.len() == LEVELS_MAX + 1 {
                    let key = key(*family);
                    let message =
                        format!("`{key}` of [subnet] has more than {LEVELS_MAX} prefixes");
                    let hint =
                        format!("keep {LEVELS_MAX} lengths; several limits may have the same");
                    report.add(&prefix.spot, Problem::new(message, hint));
                }
            }
            let LevelConfig { limits, prefix } = &mut levels[place];
            limits.push(limit.value.clone());
            if limits.len() == LIMITS_MAX + 1 {
                let message =
                    format!("the /{prefix} of [subnet] has more than {LIMITS_MAX} limits");
                let hint = format!("keep {LIMITS_MAX}, the most that a prefix can have");
                report.add(&limit.spot, Problem::new(message, hint));
            }
        }
        for family in IpFamily::ALL {
            let levels = config.levels_mut(family);
            levels.sort_by_key(|level| std::cmp::Reverse(level.prefix));
        }
        config
    }
}

impl RawNode {
    /// Returns the configuration in combination with `[challenge]`. It is valid only if no error
    /// was reported. A RST does not prove a source for precedence: a live host also sends one to a
    /// forged address.
    pub fn compile_beside(
        &self,
        challenge: Option<&At<challenge::Located>>,
        report: &Report,
    ) -> NodeConfig {
        if let (Some(prefer), None) = (&self.prefer, challenge) {
            let message =
                "`prefer` of [node] is \"verified\", but without a challenge no source is verified";
            let hint = "write [challenge.tcp], and under it when = \"always\", or remove `prefer`";
            report.add(&prefer.spot, Problem::new(message, hint));
        }
        let challenge = challenge.and_then(|at| at.value.challenge.as_ref());
        let is_by_reset = challenge.is_some_and(|it| it.way == Way::Rst);
        self.compile(self.prefer.is_some() && !is_by_reset)
    }

    /// Compiles the limits of the node.
    pub fn compile(&self, prefers_verified: bool) -> NodeConfig {
        NodeConfig {
            prefers_verified,
            limits: values(&self.limits),
            observe: self.observe,
        }
    }
}

/// Reads the length of a prefix; whether it is wider than a source is not known yet.
fn read_prefix(family: IpFamily, section: &mut Section<'_>) -> Option<At<u8>> {
    let usual = usual_prefix(family);
    let value = section.require("prefix", &format!("write for example prefix = {usual}"))?;
    let last = if family == IpFamily::V4 { 32 } else { 128 };
    value.located(|value| value.integer_in(1..=last, usual)?.try_into().ok())
}

fn check_prefix(family: IpFamily, prefix: &At<u8>, source: &SourceConfig, report: &Report) {
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
