//! `rlctl list`: bans, allows and limits as tables. An empty list is an empty table without its
//! head.

use std::sync::Arc;

use clap::{Args, ValueEnum};
use jiff::{Timestamp, Zoned};
use ratelimit_core::{
    api::{Allow, AppliesTo, Ban, BanFilter, ListView, Origin, PolicyView},
    lists::Action,
    prefix::Prefix,
};

use crate::{
    ban_filter::BanFilterArguments,
    client::{self, Answer, Client},
    failure::Failure,
    phrase,
    report::Report,
    table::Table,
};

/// `list KIND [--within PREFIX] [--origin ORIGIN] [--reason-contains TEXT] [--ending TIME]`
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  rlctl list bans
  rlctl list bans --within 203.0.113.0/24 --origin automatic
  rlctl list bans --reason-contains flood --ending 10m
  rlctl list limits --json | jq '.[].name'
  rlctl list bans --json | jq 'sort_by(-.packets)[:10]'

Without a filter each list is one line; `--within` and `--origin list` show its entries. A folded \
prefix is one line, too, and `--within` shows the bans inside it. With --json, lists are in `rlctl \
list lists --json`. Policies, detection, lists, CrowdSec and other nodes never ban protected \
addresses, and `rlctl ban` needs --force for them; add more in `[protected]` of the configuration.

PACKETS and BYTES count what matched the entry; `-` means not counted.")]
pub struct ListArguments {
    /// Which list
    pub kind: ListKind,
    /// Of bans, which.
    #[command(flatten)]
    pub filter: BanFilterArguments,
}

/// The lists that there are.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ListKind {
    /// Bans, with lifetime, author and reason
    Bans,
    /// The allow list, with lifetime, author and reason
    Allows,
    /// Policies and their limits; runtime limits with lifetime, author and reason
    Limits,
    /// Lists of any origin, with their entries, files and errors
    Lists,
    /// Protected addresses, and why they are protected
    Protected,
}

/// Lists the bans that match a filter.
pub fn bans(filter: &BanFilter, client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let path = "/v1/bans";
    let answer: Answer<Vec<Ban>> = if filter.has_all() {
        client.get(path)?
    } else {
        client.get(&client::with_query(path, filter))?
    };
    // Without a filter a list is one line.
    let lists = if filter.has_all() {
        let lists: Answer<Vec<ListView>> = client.get("/v1/lists")?;
        lists.value
    } else {
        Vec::new()
    };
    let lists = lists.iter();
    let lists: Vec<&ListView> = lists
        .filter(|list| list.action == Action::Ban && list.entries > 0)
        .collect();
    if answer.value.is_empty() && lists.is_empty() {
        let none = match filter.within {
            _ if filter.has_all() => "no bans".to_owned(),
            Some(within) => format!(
                "no ban within {within}; for wider bans see `rlctl check {}`",
                within.address()
            ),
            None => "no matching bans".to_owned(),
        };
        return Ok(Report::new(answer, "").note(none));
    }
    let mut table =
        Table::new("PREFIX | >PACKETS | >BYTES | UNTIL | LEFT | SINCE | ORIGIN | BY | REASON");
    let mut fold: Option<Prefix> = None;
    for ban in &answer.value {
        let is_inside = fold.is_some_and(|fold| fold != ban.prefix && fold.covers(ban.prefix));
        if is_inside && filter.within.is_none() {
            continue;
        }
        if ban.folded.is_some() {
            fold = Some(ban.prefix);
        }
        table.row([
            ban.prefix.to_string(),
            phrase::counted(ban.counter.packets),
            phrase::counted(ban.counter.bytes),
            phrase::end(ban.until, now),
            remaining(ban.until, now),
            phrase::moment(ban.since, now),
            ban.origin.to_string(),
            ban.author.to_string(),
            reason(ban),
        ]);
    }
    for list in &lists {
        table.row([
            phrase::count(list.entries, "prefix", "prefixes"),
            phrase::counted(list.counter.packets),
            phrase::counted(list.counter.bytes),
            String::new(),
            String::new(),
            list.since
                .map_or_else(String::new, |since| phrase::moment(since, now)),
            Origin::List(Arc::clone(&list.name)).to_string(),
            String::new(),
            list.file.clone().unwrap_or_default(),
        ]);
    }
    Ok(Report::new(answer, table.to_string()))
}

/// The reason of a ban: `192 bans folded: at least 75 % of its sources are banned`.
fn reason(ban: &Ban) -> String {
    let reason = ban.reason.as_deref().unwrap_or_default();
    match ban.folded {
        Some(bans) => {
            let bans = phrase::count(bans, "ban", "bans");
            format!("{bans} folded: {reason}")
        }
        None => reason.to_owned(),
    }
}

/// Lists who is exempt.
pub fn allows(client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let answer: Answer<Vec<Allow>> = client.get("/v1/allows")?;
    if answer.value.is_empty() {
        return Ok(Report::new(answer, "").note("the allow list is empty"));
    }
    let mut table = Table::new("PREFIX | >PACKETS | >BYTES | UNTIL | LEFT | SINCE | BY | REASON");
    for allow in &answer.value {
        let since = allow.since.map(|since| phrase::moment(since, now));
        table.row([
            allow.prefix.to_string(),
            phrase::counted(allow.counter.packets),
            phrase::counted(allow.counter.bytes),
            phrase::end(allow.until, now),
            remaining(allow.until, now),
            since.unwrap_or_default(),
            author(&allow.origin, allow.author.as_deref()),
            allow.reason.as_deref().unwrap_or_default().to_owned(),
        ]);
    }
    Ok(Report::new(answer, table.to_string()))
}

/// Lists policies with their limits and prefixes side by side, and for runtime limits also expiry,
/// start and reason.
pub fn limits(client: &Client, now: &Zoned) -> Result<Report, Failure> {
    let answer: Answer<Vec<PolicyView>> = client.get("/v1/limits")?;
    let mut table = Table::new(
        "POLICY | PREFIX | LIMIT | MODE | >PACKETS | >BYTES | UNTIL | LEFT | SINCE | BY | REASON",
    );
    for policy in &answer.value {
        policy_rows(policy, &mut table, now);
    }
    Ok(Report::new(answer, table.to_string()))
}

fn policy_rows(policy: &PolicyView, table: &mut Table, now: &Zoned) {
    let mode = if policy.observe { "observe" } else { "enforce" };
    let runtime = policy.runtime.as_ref();
    let (until, left, since) = runtime.map_or_else(Default::default, |runtime| {
        let until = phrase::end(runtime.until, now);
        let since = phrase::moment(runtime.since, now);
        (until, remaining(runtime.until, now), since)
    });
    let reason = runtime.and_then(|runtime| runtime.reason.as_deref());
    let author = author(&policy.origin, runtime.map(|runtime| &*runtime.author));
    let first = |text: &str, row| if row == 0 { text } else { "" }.to_owned();
    let drops = policy.drops.then(|| "drops everything".to_owned());
    let limits = policy.limits.iter().map(ToString::to_string);
    let connections = policy.connections.iter();
    let connections = connections.map(|most| format!("{most} TCP connections"));
    let ban = policy.ban.iter().map(|ban| format!("after {ban}"));
    let limits = drops.into_iter().chain(limits);
    let limits: Vec<String> = limits.chain(connections).chain(ban).collect();
    let prefixes = policy.prefixes.iter().map(ToString::to_string);
    let prefixes: Vec<String> = prefixes.chain(policy.selection.clone()).collect();
    for row in 0..limits.len().max(prefixes.len()).max(1) {
        let prefix = prefixes.get(row).cloned();
        let limit = limits.get(row).cloned();
        table.row([
            first(&policy.name, row),
            prefix.unwrap_or_else(|| first(default_for(policy), row)),
            limit.unwrap_or_else(|| first("unlimited", row)),
            first(mode, row),
            first(&phrase::counted(policy.counter.packets), row),
            first(&phrase::counted(policy.counter.bytes), row),
            first(&until, row),
            first(&left, row),
            first(&since, row),
            first(&author, row),
            first(reason.unwrap_or_default(), row),
        ]);
    }
}

/// Returns the scope of a policy without prefixes.
fn default_for(policy: &PolicyView) -> &'static str {
    match policy.applies_to {
        AppliesTo::Prefix => "each, as one",
        AppliesTo::Interface => "all traffic",
        AppliesTo::Node => "everything",
        AppliesTo::Source if policy.name == "default" => "all others",
        AppliesTo::Source if policy.prefixes.is_empty() && policy.selection.is_none() => {
            "others, per interface"
        }
        AppliesTo::Destination | AppliesTo::SourceToDestination | AppliesTo::Source => "",
    }
}

fn remaining(until: Option<Timestamp>, now: &Zoned) -> String {
    until.map_or_else(String::new, |until| phrase::span(now.timestamp(), until))
}

fn author(origin: &Origin, author: Option<&str>) -> String {
    match (origin, author) {
        (Origin::Manual | Origin::Forced, Some(author)) => author.to_owned(),
        (Origin::Manual, None) => "rlctl".to_owned(),
        (origin, _) => origin.to_string(),
    }
}
