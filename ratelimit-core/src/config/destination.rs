//! The limits of destinations: `[destination."198.51.100.7/32"]`.

use std::collections::BTreeMap;

use super::{
    DestinationConfig,
    group::Group,
    limit,
    policy::check_count,
    report::{At, Report},
    table::{Section, Value},
};
use crate::{diagnostic::Problem, limit::LimitSpec, prefix::Prefix};

/// How the title of each destination begins.
pub const TITLE: &str = "[destination.";

const LIMITS: &str = "limits = [{ packets = 50_000, per = \"1s\" }]";
const SOURCE_LIMITS: &str = "source_limits = [{ packets = 1000, per = \"1s\" }]";

/// A destination, with the places of what it says.
pub struct Destination {
    pub prefix: At<Prefix>,
    /// As a message names it: `[destination."198.51.100.7"]`.
    pub title: String,
    /// Those of all packets together.
    pub limits: Vec<At<LimitSpec>>,
    /// Those of what each source sends there.
    pub source_limits: Vec<At<LimitSpec>>,
    pub observe: bool,
    /// The names of classes that its limits mention.
    pub mentions: Vec<At<String>>,
}

/// Reads the destinations of a file.
pub fn read_all(section: Section<'_>, report: &mut Report) -> Vec<Destination> {
    let values = section.into_values().into_iter();
    values
        .filter_map(|(name, value)| read(&name, value, report))
        .collect()
}

fn read(name: &At<String>, value: Value<'_>, report: &mut Report) -> Option<Destination> {
    let title = format!("{TITLE}\"{}\"]", name.value);
    let mut section = value.table(
        title.clone(),
        "[destination.\"198.51.100.7/32\"] above it",
        report,
    )?;
    let prefix = match name.value.parse() {
        Ok(prefix) => Some(prefix),
        Err(error) => {
            report.add(&name.spot, Problem::from(error));
            None
        }
    };
    let mut mentions = vec![];
    let limits = read_limits("limits", LIMITS, &mut section, &mut mentions, report);
    let source_limits = read_limits(
        "source_limits",
        SOURCE_LIMITS,
        &mut section,
        &mut mentions,
        report,
    );
    if limits.is_none() && source_limits.is_none() {
        let hint = format!("write {LIMITS}, or {SOURCE_LIMITS}");
        section.lacks("limits", &hint, report);
    }
    let observe = section.flag("observe", report);
    section.finish(report);
    let destination = Destination {
        prefix: At {
            value: prefix?,
            spot: name.spot.clone(),
        },
        title,
        limits: limits.unwrap_or_default(),
        source_limits: source_limits.unwrap_or_default(),
        observe,
        mentions,
    };
    destination.check(report);
    Some(destination)
}

fn read_limits(
    key: &'static str,
    example: &str,
    section: &mut Section<'_>,
    mentions: &mut Vec<At<String>>,
    report: &mut Report,
) -> Option<Vec<At<LimitSpec>>> {
    let value = section.take(key)?;
    if value.is_empty_list() {
        let message = format!("the `{key}` of {} are none", section.title);
        report.add(
            &value.spot,
            Problem::new(message, format!("write {example}, or remove it")),
        );
        return Some(vec![]);
    }
    let items = value.list(example, report).unwrap_or_default();
    check_count(&format!("`{key}` of {}", section.title), &items, report);
    let read = |item| limit::read(item, mentions, report);
    Some(items.into_iter().filter_map(read).collect())
}

impl Destination {
    fn check(&self, report: &mut Report) {
        for At { value, spot } in &self.limits {
            if value.compile().is_log() {
                let message = format!(
                    "{} cannot have a limit by sliding-log: one log would be written by every CPU for every packet",
                    self.title
                );
                let hint = "write algorithm = \"sliding-window\" or \"token-bucket\"";
                report.add(spot, Problem::new(message, hint));
            }
        }
        for At { value, spot } in self.limits.iter().chain(&self.source_limits) {
            if value.division().is_some() {
                let message = format!("nodes do not share limits of {}", self.title);
                let hint = "remove `scope`, and write the part of each node: the limit divided by the nodes";
                report.add(spot, Problem::new(message, hint));
            }
        }
    }

    /// The limits that a packet is charged to together.
    pub fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let both = [
            ("limits", &self.limits),
            ("source_limits", &self.source_limits),
        ];
        both.into_iter().map(|(key, limits)| Group {
            title: format!("`{key}` of {}", self.title),
            limits: limits.iter().collect(),
        })
    }
}

/// What the files say of all destinations. A prefix that was said twice is reported.
pub fn compile(
    destinations: &[Destination],
    report: &mut Report,
) -> BTreeMap<Prefix, DestinationConfig> {
    let mut first: BTreeMap<Prefix, &Destination> = BTreeMap::new();
    let mut compiled = BTreeMap::new();
    for destination in destinations {
        let At { value, spot } = &destination.prefix;
        if let Some(before) = first.get(value) {
            let what = format!("the destination {value} stands twice");
            report.add_repeated(spot, &before.prefix.spot, &what, "keep one of them");
            continue;
        }
        first.insert(*value, destination);
        let specs = |limits: &[At<LimitSpec>]| limits.iter().map(|at| at.value.clone()).collect();
        compiled.insert(
            *value,
            DestinationConfig {
                limits: specs(&destination.limits),
                source_limits: specs(&destination.source_limits),
                observe: destination.observe,
            },
        );
    }
    compiled
}
