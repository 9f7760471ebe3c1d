//! A policy: `[policy.default]` for all sources, `[policy.NAME]` for some.

use ratelimit_common::limit::LIMITS_MAX;

use super::{
    ban, limit, prefixes,
    report::{At, Report, Spot},
    table::{Section, Value, is_name},
};
use crate::{ban::BanSpec, diagnostic::Problem, limit::LimitSpec, prefix::Prefix};

/// The name of the policy for sources that no other is for.
pub const DEFAULT: &str = "default";

/// A policy, with the places of what it says.
pub struct Policy {
    pub name: String,
    /// As a message names it: `[policy.partner]`.
    pub title: String,
    pub spot: Spot,
    pub sources: Vec<At<Prefix>>,
    /// Whether it says for whom it is.
    pub has_sources: bool,
    pub limits: Vec<At<LimitSpec>>,
    pub observe: bool,
    pub ban: Option<At<BanSpec>>,
    /// The names of classes that its limits mention.
    pub mentions: Vec<At<String>>,
}

/// Reads the policies of a file.
pub fn read_all(section: Section<'_>, report: &mut Report) -> Vec<Policy> {
    let values = section.into_values().into_iter();
    values
        .filter_map(|(name, value)| read(name, value, report))
        .collect()
}

fn read(name: At<String>, value: Value<'_>, report: &mut Report) -> Option<Policy> {
    if !is_name(&name.value) {
        let message = format!("`{}` is no name for a policy", name.value);
        let hint = "write letters, digits, `-` and `_`";
        report.add(&name.spot, Problem::new(message, hint));
    }
    let title = format!("[policy.{}]", name.value);
    let mut section = value.table(title, "[policy.default] above it", report)?;
    let sources = section.take("sources");
    let has_sources = sources.is_some() || name.value == DEFAULT;
    let sources = sources.map_or(vec![], |value| {
        read_sources(&name.value, &section.title, value, report)
    });
    let mut mentions = vec![];
    let limits = read_limits(&mut section, &mut mentions, report);
    let ban = section.take("ban");
    let ban = ban.and_then(|value| ban::read(value, report));
    let observe = section.flag("observe", report);
    let policy = Policy {
        name: name.value,
        title: section.title.clone(),
        spot: section.spot.clone(),
        sources,
        has_sources,
        limits,
        observe,
        ban,
        mentions,
    };
    section.finish(report);
    Some(policy)
}

fn read_sources(name: &str, title: &str, value: Value<'_>, report: &mut Report) -> Vec<At<Prefix>> {
    let (message, hint) = if name == DEFAULT {
        (
            "[policy.default] is for the sources that no other policy is for".to_owned(),
            "remove `sources`, or give the policy another name",
        )
    } else if value.is_empty_list() {
        (
            format!("the `sources` of {title} are none"),
            "write for whom the policy is, or remove it",
        )
    } else {
        return prefixes::read(value, report);
    };
    report.add(&value.spot, Problem::new(message, hint));
    vec![]
}

fn read_limits(
    section: &mut Section<'_>,
    mentions: &mut Vec<At<String>>,
    report: &mut Report,
) -> Vec<At<LimitSpec>> {
    const EXAMPLE: &str = "limits = [{ packets = 1000, per = \"1s\" }]";
    let hint = format!("write {EXAMPLE}, or limits = [] to limit nothing");
    let Some(value) = section.require("limits", &hint, report) else {
        return vec![];
    };
    let items = value.list(EXAMPLE, report).unwrap_or_default();
    check_count(&section.title, &items, report);
    items
        .into_iter()
        .filter_map(|item| limit::read(item, mentions, report))
        .collect()
}

/// Reports limits that are more than a policy can have.
pub fn check_count(title: &str, items: &[Value<'_>], report: &mut Report) {
    if let Some(ninth) = items.get(LIMITS_MAX) {
        let message = format!("{title} has {} limits", items.len());
        let hint = format!("keep {LIMITS_MAX}, the most that a policy can have");
        report.add(&ninth.spot, Problem::new(message, hint));
    }
}
