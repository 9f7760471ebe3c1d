//! An interface: `[[interface]]`.

use std::{
    collections::BTreeSet,
    path::{Component, PathBuf},
};

use ratelimit_common::{layout::INTERFACES_MAX, limit::LIMITS_MAX};

use super::{
    aggregate::{self, RawNode},
    challenge,
    limit::Group,
    model::{Config, Interface, Mode},
    policy::{self, Policy},
    report::{At, Report, Spot},
    suggestion,
    table::Value,
};
use crate::{
    detection::{Answer, Kind},
    diagnostic::Problem,
    limit::LimitSpec,
};

/// Bytes of an interface's name, without the NUL: `IFNAMSIZ` less 1.
const NAME_BYTES_MAX: usize = 15;

/// An interface, and where its policy is named and its limits are.
pub struct Located {
    pub interface: At<Interface>,
    pub policy: Option<At<String>>,
    pub node: Option<RawNode>,
}

/// Reads the interfaces of a file; `None` for each one with reported errors.
pub fn read_all(value: Value<'_>) -> Vec<Option<Located>> {
    if value.is_text() {
        let name = value.text("").unwrap_or_default();
        let each = if name.contains(['*', '?']) {
            ", one for each interface: patterns are not supported"
        } else {
            ""
        };
        value.complain(
            "`interface` is a string, not a table",
            format!("write [[interface]] and under it name = \"eth0\"{each}"),
        );
        return vec![None];
    }
    match value.list("[[interface]], with two brackets") {
        Some(items) => items.into_iter().map(read).collect(),
        None => vec![None],
    }
}

fn read(value: Value<'_>) -> Option<Located> {
    let mut section = value.table("[[interface]]", "[[interface]]")?;
    let name = section.require("name", "write for example name = \"eth0\"");
    let name =
        name.and_then(|value| value.located(|it| it.text("name = \"eth0\"").map(str::to_owned)));
    let mode = section.choice("mode");
    let jumbo = section.flag("jumbo");
    let next = section.take("chain");
    if let Some(next) = next.as_ref().filter(|_| mode == Some(Mode::Tcx)) {
        next.complain(
            "`chain` has no effect where `mode` is \"tcx\"",
            "remove it: the kernel calls one program at TCX after the other",
        );
    }
    let next = next.and_then(|value| read_next(&value));
    let policy = section.take("policy");
    let policy =
        policy.and_then(|value| value.located(|it| it.text("policy = \"lan\"").map(str::to_owned)));
    let observe = section.flag("observe");
    let node = section.take("node").and_then(|value| {
        let title = format!("`node` of {}", section.title);
        let section = value.table(title, "[interface.node] under it")?;
        Some(aggregate::read_node_of_interface(section))
    });
    let report = section.report;
    section.finish();
    let name = name?;
    report.accept(&name.spot, check_name(&name.value))?;
    let interface = name.map(|name| Interface {
        name,
        mode: mode.unwrap_or_default(),
        jumbo,
        next,
        policy: policy.as_ref().map(|policy| policy.value.clone()),
        node: node.as_ref().map(|node| node.compile(false)),
        observe,
    });
    Some(Located {
        interface,
        policy,
        node,
    })
}

impl Located {
    /// Returns the limits that replace those of the node.
    pub fn group(&self) -> Option<Group<'_>> {
        let node = self.node.as_ref()?;
        let name = &self.interface.value.name;
        Some(Group {
            title: format!("`node` of the interface {name}"),
            limits: node.limits.iter().collect(),
        })
    }
}

/// Reads the path of a pinned program.
fn read_next(value: &Value<'_>) -> Option<PathBuf> {
    const EXAMPLE: &str = "chain = \"/sys/fs/bpf/other\"";
    let text = value.text(EXAMPLE)?;
    let path = PathBuf::from(text);
    let mut parts = path.components();
    let is_plain = parts.next() == Some(Component::RootDir)
        && parts.all(|part| matches!(part, Component::Normal(_)))
        && path.parent().is_some();
    if is_plain {
        return Some(path);
    }
    let message = format!("`{text}` is not a path for a pinned program");
    let hint = format!("write an absolute path on a bpffs without `..`, such as {EXAMPLE}");
    value.refuse(message, hint)
}

/// Checks a name like Linux: `dev_valid_name` in `net/core/dev.c`.
pub fn check_name(name: &str) -> Result<(), Problem> {
    let is_odd = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let message = if name.is_empty() {
        "the name of the interface is empty".to_owned()
    } else if name.len() > NAME_BYTES_MAX {
        let length = name.len();
        format!("`{name}` has {length} bytes, and names of interfaces at most {NAME_BYTES_MAX}")
    } else if name == "." || name == ".." || name.contains(is_odd) {
        format!("`{name}` is not a valid interface name")
    } else {
        return Ok(());
    };
    let hint = "write a name that `ip link` shows, such as eth0";
    Err(Problem::new(message, hint))
}

/// Reports a challenge on interfaces that cannot answer it.
pub fn check_challenge(
    interfaces: &[Option<Located>],
    challenge: Option<&At<challenge::Located>>,
    report: &Report,
) {
    let interfaces = interfaces.iter().flatten().map(|it| &it.interface.value);
    let mut at_tcx = interfaces.filter(|it| it.mode == Mode::Tcx);
    if let (Some(challenge), Some(interface)) = (challenge, at_tcx.next()) {
        let name = &interface.name;
        let message = format!("a challenge cannot be answered on {name}, whose `mode` is \"tcx\"");
        let hint = format!("write mode = \"native\" or \"generic\" for {name}, or no challenge");
        report.add(&challenge.spot, Problem::new(message, hint));
    }
}

/// Reports unknown policies of interfaces, and policies without prefixes and interfaces.
pub fn check_policies(interfaces: &[Option<Located>], policies: &[Policy], report: &Report) {
    let interfaces = interfaces.iter().flatten();
    let named: Vec<&At<String>> = interfaces.filter_map(|it| it.policy.as_ref()).collect();
    let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
    for At { value, spot } in &named {
        if !names.contains(&value.as_str()) && value != policy::DEFAULT {
            let message = format!("there is no [policy.{value}]");
            let suggested = suggestion::word(value, &names);
            report.add(spot, suggested.for_problem(&message));
        }
    }
    for policy in policies {
        if !policy.has_sources && !named.iter().any(|name| name.value == policy.name) {
            let message = format!("{} has no `sources`", policy.title);
            let hint = "add sources = [\"192.0.2.0/24\"], or select the policy with `policy` in an \
                        [[interface]]";
            report.add(&policy.spot, Problem::new(message, hint));
        }
    }
}

/// Returns the limits of interfaces for sources without their own policy. If limits differ only in
/// their amounts, it returns the smallest.
pub fn limits_of_sources(config: &Config) -> Vec<LimitSpec> {
    let interfaces = config.interfaces.iter().filter(|it| !it.observe);
    let names: BTreeSet<&str> = interfaces.filter_map(|it| it.policy.as_deref()).collect();
    let policies = names.iter().filter_map(|name| config.policies.get(*name));
    let enforced = policies.filter(|policy| !policy.observe);
    let mut limits: Vec<LimitSpec> = Vec::new();
    for limit in enforced.flat_map(|policy| &policy.limits) {
        let limit = limit.alone();
        let kind = |it: &LimitSpec| (it.unit(), it.window(), it.algorithm(), it.class().cloned());
        match limits.iter_mut().find(|it| kind(it) == kind(&limit)) {
            Some(known) if known.amount() <= limit.amount() => {}
            Some(known) => *known = limit,
            None => limits.push(limit),
        }
    }
    limits
}

/// Warns that an attacking source does not get all limits: a policy has a maximum number, and those
/// of attacks come first.
pub fn warn_of_limits_left_out(config: &Config, detection: &Spot, warnings: &Report) {
    let count = limits_of_sources(config).len();
    let of_attacks = limits_of_attacks(config);
    let kept = LIMITS_MAX - of_attacks;
    if of_attacks > 0 && count > kept {
        let message = format!(
            "a source that is limited for an attack has {kept} of the {count} limits of \
             interfaces' policies"
        );
        let hint = format!("write at most {kept} of different windows, units and classes");
        warnings.add(detection, Problem::new(message, hint));
    }
}

/// The most limits that a source has of attacks: its own, and that of its subnet where this is
/// another.
fn limits_of_attacks(config: &Config) -> usize {
    let rules = config.attacks.iter();
    let limited = rules.filter(|(_, rule)| rule.answer == Answer::Limit);
    let (of_subnet, of_source): (Vec<_>, Vec<_>) = limited
        .map(|(kind, rule)| (*kind, &rule.limit))
        .partition(|(kind, _)| *kind == Kind::Spread);
    let subnet = of_subnet.first().map(|(_, limit)| limit);
    let is_other = |limit| Some(limit) != subnet;
    usize::from(subnet.is_some()) + usize::from(of_source.iter().any(|(_, limit)| is_other(limit)))
}

/// Returns an error if there are too many interfaces.
pub fn check_count(count: usize) -> Result<(), Problem> {
    if count <= INTERFACES_MAX as usize {
        return Ok(());
    }
    Err(Problem::new(
        format!("{count} interfaces are too many"),
        format!("keep {INTERFACES_MAX}, the most that can be counted separately"),
    ))
}
