//! A policy: `[policy.default]` for all sources, `[policy.NAME]` for some.

pub mod drops;

use std::num::NonZeroU32;

use super::{
    ban, limit,
    list::{self, ListConfig},
    prefixes,
    report::{At, Spot},
    table::{Section, Value},
};
use crate::{ban::BanSpec, limit::LimitSpec, prefix::Prefix};

/// The most connections that a policy may permit a source.
const CONNECTIONS_MAX: u32 = 1_000_000;

/// The name of the policy for sources that no other is for.
pub const DEFAULT: &str = "default";

/// A policy with the positions of its values.
pub struct Policy {
    pub name: String,
    /// The name in messages: `[policy.partner]`.
    pub title: String,
    pub spot: Spot,
    pub sources: Vec<At<Prefix>>,
    /// The database that selects more sources.
    pub database: Option<ListConfig>,
    /// Whether it has a `sources` or `mmdb` key.
    pub has_sources: bool,
    pub limits: Vec<At<LimitSpec>>,
    /// Whether it drops every packet.
    pub drops: bool,
    pub observe: bool,
    pub ban: Option<At<BanSpec>>,
    /// The second allowance for established connections.
    pub established: Vec<At<LimitSpec>>,
    /// The TCP connections that a source may have at a time.
    pub connections: Option<At<NonZeroU32>>,
}

/// Reads the policies of a file.
pub fn read_all(section: Section<'_>) -> Vec<Policy> {
    let values = section.into_named("policy");
    values
        .filter_map(|(name, value)| read(name.value, value))
        .collect()
}

fn read(name: String, value: Value<'_>) -> Option<Policy> {
    const LIMITS: &str = "limits = [{ packets = 1000, per = \"1s\" }]";
    let title = format!("[policy.{name}]");
    let mut section = value.table(&title, "[policy.default] above it")?;
    let sources = section.take("sources");
    let has_database = section.has("mmdb");
    let has_sources = sources.is_some() || has_database || name == DEFAULT;
    let sources = sources.map_or(vec![], |value| read_sources(&name, &title, value));
    let database = read_database(&name, &mut section);
    let drops = drops::read(&mut section);
    let limits = if drops {
        None
    } else {
        let hint = format!("write {LIMITS}, or limits = [] to limit nothing");
        section.require("limits", &hint)
    };
    let limits = limits.map_or(vec![], |value| limit::read_list(value, &title, LIMITS));
    let established = section.take("established");
    let established = established.map_or(vec![], |value| read_established(value, &title, &limits));
    let connections = section
        .take("connections")
        .and_then(|value| read_connections(&value));
    let ban = section.take("ban").and_then(ban::read);
    let observe = section.flag("observe");
    Some(Policy {
        name,
        title,
        spot: section.finish(),
        sources,
        database,
        has_sources,
        limits,
        drops,
        observe,
        ban,
        established,
        connections,
    })
}

fn read_connections(value: &Value<'_>) -> Option<At<NonZeroU32>> {
    value.located(|value| NonZeroU32::new(value.integer_in(1..=CONNECTIONS_MAX, 20)?))
}

/// Reads the second allowance for established connections: `true` is the limits of the policy once
/// more.
fn read_established(value: Value<'_>, title: &str, limits: &[At<LimitSpec>]) -> Vec<At<LimitSpec>> {
    const EXAMPLE: &str = "established = true, or established = [{ packets = 1000, per = \"1s\" }]";
    if value.is_boolean() {
        return match value.boolean() {
            Some(true) => limits.to_vec(),
            Some(false) | None => vec![],
        };
    }
    limit::read_list(value, &format!("`established` of {title}"), EXAMPLE)
}

const SOURCES_OF_DEFAULT: &str = "[policy.default] is for the sources that no other policy is for";

/// Reads the database that selects more sources.
fn read_database(name: &str, section: &mut Section<'_>) -> Option<ListConfig> {
    if name != DEFAULT || !section.has("mmdb") {
        return list::read_database(section);
    }
    let [mmdb, ..] = ["mmdb", "country", "asn"].map(|key| section.take(key));
    let hint = "remove `mmdb`, or give the policy another name";
    mmdb?.refuse(SOURCES_OF_DEFAULT, hint)
}

fn read_sources(name: &str, title: &str, value: Value<'_>) -> Vec<At<Prefix>> {
    if name == DEFAULT {
        let hint = "remove `sources`, or give the policy another name";
        return value.refuse(SOURCES_OF_DEFAULT, hint).unwrap_or_default();
    }
    if value.len() == Some(0) {
        let message = format!("`sources` of {title} is empty");
        value.complain(message, "add the sources of the policy, or remove it");
    }
    prefixes::read(value)
}
