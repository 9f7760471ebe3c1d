//! What a new configuration changes, and what of it waits for a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    path::PathBuf,
};

use ratelimit_common::{parse::Tunnels, settings::OverBudget};
use ratelimit_core::{
    api::Refused,
    challenge::Challenge,
    class::{Action, Catalogue, Class},
    compile::keeps_state,
    config::{Config, DestinationConfig, Interface, PolicyConfig, Source, StateStore, inner},
    ip_family::IpFamily,
    limit::LimitSpec,
    new_sources::NewSources,
    prefix::Prefix,
    quantity,
};

/// Refuses what takes effect only at a restart: the database and the pins stay where they are while the daemon runs.
pub fn require_no_restart(before: &Config, after: &Config) -> Result<(), Refused> {
    if before.paths == after.paths {
        return Ok(());
    }
    Err(
        Refused::because("[paths] is different, which takes effect at a restart only")
            .hint("restart ratelimitd: limits and bans go on being enforced meanwhile"),
    )
}

/// What is different between the interfaces, a line each.
fn interface_changes(before: &[Interface], after: &[Interface]) -> Vec<String> {
    let find = |all: &[Interface], name: &str| all.iter().find(|it| it.name == name).cloned();
    let gone = before.iter().filter(|it| find(after, &it.name).is_none());
    let names = gone.chain(after).map(|it| &*it.name);
    names
        .filter_map(|name| {
            let what = match (find(before, name), find(after, name)) {
                (None, Some(_)) => "added".to_owned(),
                (Some(_), None) => "removed".to_owned(),
                (Some(before), Some(after)) => interface_change([&before, &after])?,
                (None, None) => return None,
            };
            Some(format!("interface {name}: {what}"))
        })
        .collect()
}

/// What is different about an interface, but for its limits in place of those of the node.
fn interface_change(both: [&Interface; 2]) -> Option<String> {
    let mode = |it: &Interface| <&str>::from(it.mode);
    let next = |it: &Interface| it.next.as_ref().map(|next| next.display().to_string());
    let policy = |it: &Interface| it.policy.clone().unwrap_or_else(|| "default".to_owned());
    let parts = [
        change("mode", both, mode, |mode| mode),
        change("jumbo", both, |it| it.jumbo, |jumbo| jumbo),
        change("next", both, next, |next| text_or(next, "none")),
        change("policy", both, policy, |policy| policy),
        change("observe", both, |it| it.observe, |observe| observe),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// `what before -> after`, where a setting is different.
fn change<'a, C, T: PartialEq, D: Display>(
    what: &str,
    [before, after]: [&'a C; 2],
    setting: impl Fn(&'a C) -> T,
    text: impl Fn(T) -> D,
) -> Option<String> {
    let (before, after) = (setting(before), setting(after));
    (before != after).then(|| format!("{what} {} -> {}", text(before), text(after)))
}

fn text_or<T: Display>(value: Option<T>, none: &str) -> String {
    value.map_or_else(|| none.to_owned(), |value| value.to_string())
}

/// What is different about where and by what sources are limited.
fn base_changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = interface_changes(&before.interfaces, &after.interfaces);
    let both = [before, after];
    lines.extend(change("inner:", both, |it| it.source.inner, inner::text));
    let logs = change("source: logs", both, |it| it.source.logs, |logs| logs);
    lines.extend(logs.map(|change| format!("{change}; what sliding logs hold starts anew")));
    let of_sources = |config: &Config| Source {
        inner: Tunnels::NONE,
        logs: 0,
        ..config.source.clone()
    };
    if of_sources(before) != of_sources(after) {
        lines.push(format!(
            "source: changed, and what {} have used starts anew{}",
            start_anew(both),
            unless_kept(both)
        ));
        lines.extend(new_again(both));
    }
    let off = |address| text_or(address, "off");
    lines.extend(change("metrics:", both, |it| it.metrics, off));
    let word = |is_on| if is_on { "on" } else { "off" };
    lines.extend(change("dashboard:", both, |it| it.dashboard, word));
    let token = |it: &'_ Config| it.dashboard_token.clone();
    let path = |path: Option<PathBuf>| text_or(path.as_ref().map(|path| path.display()), "none");
    lines.extend(change("dashboard's token:", both, token, path));
    let keep = |keep: Option<_>| text_or(keep.map(quantity::duration), "off");
    lines.extend(change("history:", both, |it| it.history, keep));
    if before.watched != after.watched {
        let names = |config: &Config| {
            let names: Vec<String> = config.watched.iter().map(ToString::to_string).collect();
            match &names[..] {
                [] => "nothing".to_owned(),
                names => names.join(", "),
            }
        };
        let (before, after) = (names(before), names(after));
        lines.push(format!("history: watches {after} in place of {before}"));
    }
    lines
}

/// Whose state starts anew with another `[source]`: what stands beside the table of `compact` is made anew with it.
fn start_anew([before, after]: [&Config; 2]) -> &'static str {
    let sizes = [before, after].map(|it| (it.source.store, it.source.capacity));
    let is_compact = sizes.iter().any(|(store, _)| *store == StateStore::Compact);
    if is_compact && sizes[0] != sizes[1] {
        "sources, destinations, interfaces and the node"
    } else {
        "sources"
    }
}

/// A table of `compact` that is larger than it has to be is kept, but not one that is much larger.
fn unless_kept(both: [&Config; 2]) -> &'static str {
    let [before, after] = both.map(|config| Source {
        inner: Tunnels::NONE,
        capacity: 0,
        ..config.source.clone()
    });
    let [larger, smaller] = both.map(|config| config.source.capacity);
    if before == after && after.store == StateStore::Compact && larger > smaller {
        ", unless the table is kept, as it is not much too large"
    } else {
        ""
    }
}

/// What becomes of known sources where no state of theirs is left, and new ones have a budget that refuses or limits them.
fn new_again(both: [&Config; 2]) -> Option<String> {
    let NewSources {
        count,
        per,
        over_budget,
    } = both[1].new_sources?;
    let becomes = match over_budget {
        OverBudget::Pass => return None,
        OverBudget::Drop => "dropped",
        OverBudget::Aggregate => "limited with their network",
    };
    let per = quantity::duration(per);
    let unless = unless_kept(both);
    Some(format!(
        "new sources: all are new again, and over {count} per {per} they are {becomes}{unless}"
    ))
}

/// What is different, a line each.
pub fn changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = base_changes(before, after);
    lines.extend(class_changes(&before.classes, &after.classes));
    let (old, new) = (&before.classes, &after.classes);
    let mut policy =
        |name: &str, before: Option<&PolicyConfig>, after: Option<&PolicyConfig>| match (
            before, after,
        ) {
            (None, Some(_)) => lines.push(format!("policy {name}: added")),
            (Some(_), None) => lines.push(format!("policy {name}: removed")),
            (Some(before), Some(after))
                if before != after || !same_packets(before, old, after, new) =>
            {
                lines.push(policy_change(name, (before, old), (after, new)));
            }
            (None, None) | (Some(_), Some(_)) => {}
        };
    policy(
        "default",
        Some(&before.default_policy),
        Some(&after.default_policy),
    );
    let names: BTreeSet<_> = before
        .policies
        .keys()
        .chain(after.policies.keys())
        .collect();
    for name in names {
        policy(name, before.policies.get(name), after.policies.get(name));
    }
    lines.extend(wide_changes(before, after));
    if before.bans_per_minute != after.bans_per_minute {
        lines.push(format!(
            "detection: {} bans a minute -> {}",
            before.bans_per_minute, after.bans_per_minute
        ));
    }
    if before.unverified_per_minute != after.unverified_per_minute {
        lines.push(format!(
            "detection: {} answers a minute to sources that may be forged -> {}",
            before.unverified_per_minute, after.unverified_per_minute
        ));
    }
    for kind in ratelimit_core::detection::Kind::ALL {
        let (old, new) = (before.attacks.get(kind), after.attacks.get(kind));
        let what = match (old, new) {
            (None, Some(_)) => "looked for",
            (Some(_), None) => "not looked for",
            (old, new) if old != new => "changed",
            (None, None) | (Some(_), Some(_)) => continue,
        };
        lines.push(format!("detection of {}: {what}", kind.label()));
    }
    let both = [before, after];
    let budget = |budget| text_or(budget, "any number");
    lines.extend(change("new sources:", both, |it| it.new_sources, budget));
    // `challenge: never -> always, for 10m, at most 1000000 answers a second`
    let never = |challenge: Option<&Challenge>| text_or(challenge, "never");
    lines.extend(change(
        "challenge:",
        both,
        |it| it.challenge.as_ref(),
        never,
    ));
    lines.extend(change(
        "node: prefers verified sources",
        both,
        |it| it.node.prefers_verified,
        |prefers| prefers,
    ));
    lines.extend(prefix_changes("allow list", &before.allow, &after.allow));
    lines.extend(prefix_changes(
        "protected",
        &before.protected,
        &after.protected,
    ));
    for (name, list) in &after.lists {
        match before.lists.get(name) {
            None => lines.push(format!("list {name}: added, from {}", list.file.display())),
            Some(old) if old != list => lines.push(format!("list {name}: changed")),
            Some(_) => {}
        }
    }
    lines.extend(change("observe:", both, |it| it.observe, |observe| observe));
    lines.extend(coming_or_going(
        "crowdsec",
        before.crowdsec.as_ref(),
        after.crowdsec.as_ref(),
        "its bans end",
    ));
    lines.extend(coming_or_going(
        "cluster",
        before.cluster.as_ref(),
        after.cluster.as_ref(),
        "bans of other nodes end, and allows and limits of all nodes",
    ));
    let label = |on_stop| format!("{on_stop:?}").to_lowercase();
    lines.extend(change("on_stop:", both, |it| it.on_stop, label));
    lines
}

/// What is different about what there is once or not at all, and what ends with it.
fn coming_or_going<T: PartialEq>(
    name: &str,
    before: Option<&T>,
    after: Option<&T>,
    ends: &str,
) -> Option<String> {
    match (before, after) {
        (None, Some(_)) => Some(format!("{name}: added")),
        (Some(_), None) => Some(format!("{name}: removed; {ends}")),
        (before, after) => (before != after).then(|| format!("{name}: changed")),
    }
}

fn policy_change(
    name: &str,
    (before, old): (&PolicyConfig, &Catalogue),
    (after, new): (&PolicyConfig, &Catalogue),
) -> String {
    let mut parts = limit_changes((&before.limits, old), (&after.limits, new), "its sources");
    parts.extend(prefix_changes("prefixes", &before.sources, &after.sources));
    let both = [before, after];
    parts.extend(change("observe", both, |it| it.observe, |observe| observe));
    let none = |ban| text_or(ban, "none");
    parts.extend(change("ban", both, |it| it.ban, none));
    format!("policy {name}: {}", parts.join("; "))
}

/// Whether the limits count the same packets, whatever their classes are called.
fn same_packets(
    before: &PolicyConfig,
    old: &Catalogue,
    after: &PolicyConfig,
    new: &Catalogue,
) -> bool {
    let classes = |limits: &[LimitSpec], catalogue: &Catalogue| -> Vec<_> {
        let classes = limits.iter().map(LimitSpec::class);
        classes
            .map(|class| class.map(|class| catalogue.select(class)))
            .collect()
    };
    classes(&before.limits, old) == classes(&after.limits, new)
}

/// What is different between limits, and what becomes of the state of `whose`.
fn limit_changes(
    before: (&[LimitSpec], &Catalogue),
    after: (&[LimitSpec], &Catalogue),
    whose: &str,
) -> Vec<String> {
    let mut parts = Vec::new();
    if before.0 != after.0 {
        parts.push(format!("{} -> {}", limits(before.0), limits(after.0)));
    }
    let kept = keeps_state(before, after);
    if !before.0.is_empty() && !after.0.is_empty() && (before.0 != after.0 || !kept) {
        let becomes = if kept { "is kept" } else { "starts anew" };
        let have = if whose == "its sources" {
            "have"
        } else {
            "has"
        };
        parts.push(format!("what {whose} {have} used {becomes}"));
    }
    parts
}

/// Which classes are different, and what they and their actions were and are.
fn class_changes(before: &Catalogue, after: &Catalogue) -> Vec<String> {
    let texts = |catalogue: &Catalogue| -> BTreeMap<String, String> {
        let text = |(name, class, action): (&str, Class, Option<Action>)| {
            let becomes = action.map_or("", Action::becomes);
            (name.to_owned(), format!("{class}{becomes}"))
        };
        catalogue.iter().map(text).collect()
    };
    let (before, after) = (texts(before), texts(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let change = |name: &String| match (before.get(name), after.get(name)) {
        (None, Some(class)) => Some(format!("class {name}: added, {class}")),
        (Some(_), None) => Some(format!("class {name}: removed")),
        (Some(old), Some(new)) if old != new => Some(format!("class {name}: {old} -> {new}")),
        (None, None) | (Some(_), Some(_)) => None,
    };
    names.into_iter().filter_map(change).collect()
}

/// What is different about the limits of wider prefixes and of the node.
fn wide_changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    let mut compare = |what: String, old: &[LimitSpec], new: &[LimitSpec], whose: &str| match (
        old.is_empty(),
        new.is_empty(),
    ) {
        (true, true) => {}
        (true, false) => lines.push(format!("{what}: added, {}", limits(new))),
        (false, true) => lines.push(format!("{what}: removed")),
        (false, false) => {
            let parts = limit_changes((old, &before.classes), (new, &after.classes), whose);
            if !parts.is_empty() {
                lines.push(format!("{what}: {}", parts.join("; ")));
            }
        }
    };
    for (family, name) in [(IpFamily::V4, "ipv4"), (IpFamily::V6, "ipv6")] {
        let level = |config: &Config, prefix| -> Vec<LimitSpec> {
            let levels = config.aggregate.levels(family).iter();
            let levels = levels.filter(|level| level.prefix == prefix);
            levels.flat_map(|level| level.limits.clone()).collect()
        };
        let both = [before, after].map(|config| config.aggregate.levels(family));
        let prefixes: BTreeSet<u8> = both
            .into_iter()
            .flatten()
            .map(|level| level.prefix)
            .collect();
        for prefix in prefixes.into_iter().rev() {
            let what = format!("aggregate {name}/{prefix}");
            compare(
                what,
                &level(before, prefix),
                &level(after, prefix),
                "each prefix",
            );
        }
    }
    let destinations: BTreeSet<&Prefix> = [before, after]
        .into_iter()
        .flat_map(|config| config.destinations.keys())
        .collect();
    let mut observed = Vec::new();
    for prefix in destinations {
        let [old, new] = [before, after].map(|config| destination_of(config, prefix));
        let what = format!("destination {prefix}");
        compare(what.clone(), &old.limits, &new.limits, "it");
        let to = format!("{what}, of each source");
        compare(to, &old.source_limits, &new.source_limits, "each source");
        observed.push((what, old.observe, new.observe));
    }
    compare(
        "node".to_owned(),
        &before.node.limits,
        &after.node.limits,
        "it",
    );
    let names: BTreeSet<&str> = [before, after]
        .into_iter()
        .flat_map(|config| &config.interfaces)
        .map(|interface| &*interface.name)
        .collect();
    for name in names {
        let [old, new] = [before, after].map(|config| config.node_of(name));
        let what = format!("interface {name}, in place of the node's");
        compare(what.clone(), &old.limits, &new.limits, "it");
        observed.push((what, old.observe, new.observe));
    }
    let others = [
        (
            "aggregate".to_owned(),
            before.aggregate.observe,
            after.aggregate.observe,
        ),
        ("node".to_owned(), before.node.observe, after.node.observe),
    ];
    for (name, old, new) in others.into_iter().chain(observed) {
        if old != new {
            lines.push(format!("{name}: observe {old} -> {new}"));
        }
    }
    lines
}

fn destination_of(config: &Config, prefix: &Prefix) -> DestinationConfig {
    let destination = config.destinations.get(prefix);
    destination.cloned().unwrap_or_default()
}

fn limits(limits: &[LimitSpec]) -> String {
    if limits.is_empty() {
        return "no limit".to_owned();
    }
    let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
    limits.join(" and ")
}

/// How many prefixes of a list come and go; `None` where none does.
fn prefix_changes(what: &str, before: &[Prefix], after: &[Prefix]) -> Option<String> {
    let missing = |of: &[Prefix], from: &[Prefix]| {
        let others: BTreeSet<&Prefix> = from.iter().collect();
        of.iter().filter(|prefix| !others.contains(prefix)).count()
    };
    let (added, removed) = (missing(after, before), missing(before, after));
    (before != after).then(|| format!("{what}: +{added} -{removed}"))
}
