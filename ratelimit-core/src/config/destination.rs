//! The limits of destinations: `[destination."198.51.100.7/32"]`.

use std::collections::BTreeMap;

use super::{
    limit::{self, Group},
    model::DestinationConfig,
    report::{At, Report, values},
    table::{Section, Value},
};
use crate::{limit::LimitSpec, prefix::Prefix};

/// The start of the title of each destination.
pub const TITLE: &str = "[destination.";

const LIMITS: &str = "limits = [{ packets = 50_000, per = \"1s\" }]";
const SOURCE_LIMITS: &str = "source_limits = [{ packets = 1000, per = \"1s\" }]";

/// A destination with the positions of its values.
pub struct Destination {
    pub prefix: At<Prefix>,
    /// The name in messages: `[destination."198.51.100.7"]`.
    pub title: String,
    /// Limits of all its packets together.
    pub limits: Vec<At<LimitSpec>>,
    /// Limits of each source's packets to it.
    pub source_limits: Vec<At<LimitSpec>>,
    pub observe: bool,
}

/// Reads the destinations of a file.
pub fn read_all(section: Section<'_>) -> Vec<Destination> {
    let values = section.into_values();
    values
        .filter_map(|(name, value)| read(name, value))
        .collect()
}

fn read(name: At<String>, value: Value<'_>) -> Option<Destination> {
    let title = format!("{TITLE}\"{}\"]", name.value);
    let mut section = value.table(&title, "[destination.\"198.51.100.7/32\"] above it")?;
    let report = section.report;
    let prefix = name.value.parse::<Prefix>().map_err(Into::into);
    let prefix = report.accept(&name.spot, prefix);
    let limits = read_limits("limits", LIMITS, &mut section);
    let source_limits = read_limits("source_limits", SOURCE_LIMITS, &mut section);
    if limits.is_none() && source_limits.is_none() {
        section.lacks("limits", &format!("write {LIMITS}, or {SOURCE_LIMITS}"));
    }
    let observe = section.flag("observe");
    section.finish();
    let limits = limits.unwrap_or_default();
    let source_limits = source_limits.unwrap_or_default();
    limit::refuse_logs(&title, &limits, report);
    limit::refuse_shared(&title, limits.iter().chain(&source_limits), report);
    Some(Destination {
        prefix: At {
            value: prefix?,
            spot: name.spot,
        },
        title,
        limits,
        source_limits,
        observe,
    })
}

fn read_limits(
    key: &'static str,
    example: &str,
    section: &mut Section<'_>,
) -> Option<Vec<At<LimitSpec>>> {
    let value = section.take(key)?;
    if value.len() == Some(0) {
        let message = format!("`{key}` of {} is empty", section.title);
        value.complain(message, format!("write {example}, or remove it"));
    }
    let title = format!("`{key}` of {}", section.title);
    Some(limit::read_list(value, &title, example))
}

impl Destination {
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

/// Returns the configuration of all destinations.
pub fn compile(
    destinations: &[Destination],
    report: &Report,
) -> BTreeMap<Prefix, DestinationConfig> {
    report.find_repeated(
        destinations
            .iter()
            .map(|it| (it.prefix.value, &it.prefix.spot)),
        |prefix| format!("duplicate destination {prefix}"),
        "keep one of them",
    );
    let compiled = destinations.iter().map(|destination| {
        let compiled = DestinationConfig {
            limits: values(&destination.limits),
            source_limits: values(&destination.source_limits),
            observe: destination.observe,
        };
        (destination.prefix.value, compiled)
    });
    compiled.collect()
}
