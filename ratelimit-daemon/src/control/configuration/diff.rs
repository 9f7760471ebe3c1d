//! The differences between two configurations, and which of them need a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Display,
    iter,
    path::PathBuf,
};

use ratelimit_common::{parse::Tunnels, settings::OverBudget};
use ratelimit_core::{
    api::{ClockStatus, Refused},
    challenge::Challenge,
    class::{Action, Catalogue, Class},
    compile::keeps_state,
    config::{Config, Interface, PolicyConfig, SourceConfig, StateStore, tunnels},
    ip_family::IpFamily,
    keys::KeysConfig,
    limit::LimitSpec,
    prefix::Prefix,
    quantity,
};

/// Refuses changes that need a restart: the paths of the database and of the pins.
pub fn require_no_restart(before: &Config, after: &Config) -> Result<(), Refused> {
    if before.paths == after.paths {
        return Ok(());
    }
    Err(Refused::because("[paths] changed, which needs a restart")
        .hint("restart ratelimitd; limits and bans stay enforced during the restart"))
}

/// Describes a change of the clock.
pub fn clock_change(before: &ClockStatus, after: &ClockStatus) -> Option<String> {
    let is_other = (after.clock, after.wish) != (before.clock, before.wish);
    is_other.then(|| after.to_string())
}

/// Describes the differences between interfaces, one per line.
fn interface_changes(before: &[Interface], after: &[Interface]) -> Vec<String> {
    fn find<'a>(all: &'a [Interface], name: &str) -> Option<&'a Interface> {
        all.iter().find(|it| it.name == name)
    }
    let gone = before.iter().filter(|it| find(after, &it.name).is_none());
    let names = gone.chain(after).map(|it| &*it.name);
    let changes = names.filter_map(|name| {
        let both = [find(before, name), find(after, name)];
        difference(
            &format!("interface {name}"),
            both,
            COMES_OR_GOES,
            interface_change,
        )
    });
    changes.collect()
}

/// Describes the differences of an interface, except for its own limits of the node.
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
    joined(&parts)
}

fn joined(parts: &[String]) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join("; "))
}

/// The words for an addition and a removal.
const COMES_OR_GOES: [&str; 2] = ["added", "removed"];

/// Describes the difference of an optional item: added, removed or changed.
fn difference<T>(
    name: &str,
    both: [Option<T>; 2],
    [comes, goes]: [&str; 2],
    change: impl FnOnce([T; 2]) -> Option<String>,
) -> Option<String> {
    let what = match both {
        [None, None] => return None,
        [None, Some(_)] => comes.to_owned(),
        [Some(_), None] => goes.to_owned(),
        [Some(before), Some(after)] => change([before, after])?,
    };
    Some(format!("{name}: {what}"))
}

/// Describes a change without details.
fn changed<T: PartialEq>([before, after]: [&T; 2]) -> Option<String> {
    (before != after).then(|| "changed".to_owned())
}

/// Returns `what before -> after` if a setting differs.
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

/// Describes changes of interfaces and of the identity of sources.
fn base_changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = interface_changes(&before.interfaces, &after.interfaces);
    let both = [before, after];
    lines.extend(change(
        "tunnels:",
        both,
        |it| it.source.tunnels,
        tunnels::text,
    ));
    let logs = change(
        "source: sliding_logs",
        both,
        |it| it.source.logs,
        |logs| logs,
    );
    lines.extend(logs.map(|change| format!("{change}; sliding logs reset")));
    let of_sources = |config: &Config| SourceConfig {
        tunnels: Tunnels::NONE,
        logs: 0,
        ..config.source.clone()
    };
    if of_sources(before) != of_sources(after) {
        lines.push(format!(
            "source: changed; usage of {} reset{}",
            resets_usage_of(both),
            unless_kept(both)
        ));
        lines.extend(counted_as_new(both));
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
    lines.extend(change("snapshots:", both, |it| it.snapshot.every, keep));
    let window = |window| quantity::duration(window);
    let min_window = |it: &'_ Config| it.snapshot.min_window;
    lines.extend(change(
        "shortest window in snapshots:",
        both,
        min_window,
        window,
    ));
    let lasts = |lifetime: Option<_>| text_or(lifetime.map(quantity::duration), "forever");
    lines.extend(change("bans without a time:", both, |it| it.ban_for, lasts));
    let fold = both.map(|it| it.fold.as_ref());
    let words = ["on", "off; folded bans end"];
    lines.extend(difference("folding of bans", fold, words, changed));
    if before.watched != after.watched {
        let names = |config: &Config| {
            let names: Vec<String> = config.watched.iter().map(ToString::to_string).collect();
            match &names[..] {
                [] => "nothing".to_owned(),
                names => names.join(", "),
            }
        };
        let (before, after) = (names(before), names(after));
        lines.push(format!("history: watch {before} -> {after}"));
    }
    lines
}

/// Says whose usage a change of `[source]` resets: everything next to the table of `compact` is
/// created again with it.
fn resets_usage_of([before, after]: [&Config; 2]) -> &'static str {
    let sizes = [before, after].map(|it| (it.source.store, it.source.capacity));
    let is_compact = sizes.iter().any(|(store, _)| *store == StateStore::Compact);
    if is_compact && sizes[0] != sizes[1] {
        "sources, destinations, interfaces and the node"
    } else {
        "sources"
    }
}

/// A table of `compact` is kept if it is somewhat larger than needed, but not if it is much larger.
fn unless_kept(both: [&Config; 2]) -> &'static str {
    let [before, after] = both.map(|config| SourceConfig {
        tunnels: Tunnels::NONE,
        capacity: 0,
        ..config.source.clone()
    });
    let [larger, smaller] = both.map(|config| config.source.capacity);
    if before == after && after.store == StateStore::Compact && larger > smaller {
        ", unless the table is kept because it is not much too large"
    } else {
        ""
    }
}

/// Warns that known sources count as new when their state is lost, and that the budget for new
/// sources refuses or limits them.
fn counted_as_new(both: [&Config; 2]) -> Option<String> {
    let budget = both[1].new_sources?;
    let becomes = match budget.over_budget {
        OverBudget::Pass => return None,
        OverBudget::Drop => "dropped",
        OverBudget::Aggregate => "limited with their network",
    };
    let (count, per) = (budget.count, quantity::duration(budget.per));
    let unless = unless_kept(both);
    Some(format!(
        "new sources: all counted as new again; over {count} per {per}: {becomes}{unless}"
    ))
}

/// Describes the differences, one per line.
pub fn changes(before: &Config, after: &Config) -> Vec<String> {
    let mut lines = base_changes(before, after);
    lines.extend(class_changes(&before.classes, &after.classes));
    let both = [before, after];
    let names: BTreeSet<_> = both.iter().flat_map(|it| it.policies.keys()).collect();
    for name in iter::once(None).chain(names.into_iter().map(Some)) {
        let policies = both.map(|it| match name {
            Some(name) => Some((it.policies.get(name)?, &it.classes)),
            None => Some((&it.default_policy, &it.classes)),
        });
        let policy = format!("policy {}", name.map_or("default", String::as_str));
        lines.extend(difference(&policy, policies, COMES_OR_GOES, policy_change));
    }
    lines.extend(wide_changes(before, after));
    if before.bans_per_minute != after.bans_per_minute {
        lines.push(format!(
            "detection: {} bans a minute -> {}",
            before.bans_per_minute, after.bans_per_minute
        ));
    }
    if before.forgeable_per_minute != after.forgeable_per_minute {
        lines.push(format!(
            "detection: {} answers a minute to sources that may be forged -> {}",
            before.forgeable_per_minute, after.forgeable_per_minute
        ));
    }
    for kind in ratelimit_core::detection::Kind::ALL {
        let name = format!("detection of {}", kind.label());
        let rules = both.map(|it| it.attacks.get(kind));
        let words = ["looked for", "disabled"];
        lines.extend(difference(&name, rules, words, changed));
    }
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
        let lists = [before.lists.get(name), Some(list)];
        let added = format!("added, from {}", list.file.display());
        lines.extend(difference(
            &format!("list {name}"),
            lists,
            [&added, ""],
            changed,
        ));
    }
    lines.extend(change("observe:", both, |it| it.observe, |observe| observe));
    let crowdsec = both.map(|it| it.crowdsec.as_ref());
    let words = ["added", "removed; its bans end"];
    lines.extend(difference("crowdsec", crowdsec, words, changed));
    let cluster = both.map(|it| it.cluster.as_ref());
    let goes = "removed; bans of other nodes and cluster-wide allows and limits end";
    lines.extend(difference("cluster", cluster, ["added", goes], changed));
    let upstream = both.map(|it| it.upstream.as_ref());
    lines.extend(difference("upstream", upstream, COMES_OR_GOES, changed));
    lines.extend(key_changes(&before.keys, &after.keys));
    let label = |on_stop| format!("{on_stop:?}").to_lowercase();
    lines.extend(change("on_stop:", both, |it| it.on_stop, label));
    lines
}

/// Describes the differences of key spaces.
fn key_changes(before: &KeysConfig, after: &KeysConfig) -> Vec<String> {
    let both = [before, after];
    let off = |address| text_or(address, "off");
    let mut lines: Vec<String> = change("keys: listen", both, |it| it.listen, off)
        .into_iter()
        .collect();
    let trusted = prefix_changes(
        "keys: trusted proxies",
        &before.trusted_proxies,
        &after.trusted_proxies,
    );
    lines.extend(trusted);
    let names: BTreeSet<_> = both.iter().flat_map(|it| it.spaces.keys()).collect();
    lines.extend(names.into_iter().filter_map(|name| {
        let spaces = both.map(|it| it.spaces.get(name));
        difference(&format!("keys {name}"), spaces, COMES_OR_GOES, |spaces| {
            changed(spaces)?;
            let texts = spaces.map(|it| {
                let limits: Vec<String> = it.limits.iter().map(ToString::to_string).collect();
                limits.join(", ")
            });
            if texts[0] == texts[1] {
                return Some("changed".to_owned());
            }
            Some(format!("{} -> {}", texts[0], texts[1]))
        })
    }));
    lines
}

/// Describes the differences of a policy and of the classes of its limits.
fn policy_change(
    [(before, old), (after, new)]: [(&PolicyConfig, &Catalogue); 2],
) -> Option<String> {
    if before == after && same_packets(before, old, after, new) {
        return None;
    }
    let mut parts = limit_changes((&before.limits, old), (&after.limits, new), "its sources");
    parts.extend(prefix_changes("prefixes", &before.sources, &after.sources));
    let both = [before, after];
    let action = |drops| if drops { "drop" } else { "limit" };
    parts.extend(change("action", both, |it| it.drops, action));
    parts.extend(change("observe", both, |it| it.observe, |observe| observe));
    let none = |ban| text_or(ban, "none");
    parts.extend(change("ban", both, |it| it.ban, none));
    let any = |connections| text_or(connections, "any");
    parts.extend(change("connections", both, |it| it.connections, any));
    Some(parts.join("; "))
}

/// Returns whether the limits count the same packets, even if their classes have other names.
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

/// Describes the differences of limits, and whether usage is reset for `whose`.
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
        let becomes = if kept { "is kept" } else { "is reset" };
        parts.push(match whose {
            "it" => format!("usage {becomes}"),
            _ => format!("usage of {whose} {becomes}"),
        });
    }
    parts
}

/// Describes the differences of classes and their actions.
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
    let change = |name: &String| {
        let both = [before.get(name), after.get(name)];
        let added = format!("added, {}", text_or(both[1], "nothing"));
        let change = |[old, new]: [&String; 2]| (old != new).then(|| format!("{old} -> {new}"));
        difference(&format!("class {name}"), both, [&added, "removed"], change)
    };
    names.into_iter().filter_map(change).collect()
}

/// Describes the differences of limits of wider prefixes and of the node.
fn wide_changes(before: &Config, after: &Config) -> Vec<String> {
    let (mut lines, mut observed) = (Vec::new(), Vec::new());
    let both = [before, after];
    let mut compare = |what: &str, old: &[LimitSpec], new: &[LimitSpec], whose: &str| {
        let limited = [old, new].map(|limits| (!limits.is_empty()).then_some(limits));
        let added = format!("added, {}", limits(new));
        let change = |[old, new]: [&[LimitSpec]; 2]| {
            let (old, new) = ((old, &before.classes), (new, &after.classes));
            joined(&limit_changes(old, new, whose))
        };
        // If it returns, at the end of a trial or later, it counts from 0.
        let removed = match what {
            "node" => "removed with its usage",
            _ => "removed",
        };
        lines.extend(difference(what, limited, [&added, removed], change));
    };
    for (family, name) in [(IpFamily::V4, "ipv4"), (IpFamily::V6, "ipv6")] {
        let levels = both.iter().flat_map(|it| it.aggregate.levels(family));
        let prefixes: BTreeSet<u8> = levels.map(|level| level.prefix).collect();
        for prefix in prefixes.into_iter().rev() {
            let [old, new] = both.map(|config| -> Vec<LimitSpec> {
                let levels = config.aggregate.levels(family).iter();
                let levels = levels.filter(|level| level.prefix == prefix);
                levels.flat_map(|level| level.limits.clone()).collect()
            });
            let what = format!("subnet {name}/{prefix}");
            compare(&what, &old, &new, "each prefix");
        }
    }
    let destinations: BTreeSet<_> = both.iter().flat_map(|it| it.destinations.keys()).collect();
    let observe = |observe| observe;
    observed.extend(change(
        "subnet: observe",
        both,
        |it| it.aggregate.observe,
        observe,
    ));
    observed.extend(change("node: observe", both, |it| it.node.observe, observe));
    for prefix in destinations {
        let destinations = both.map(|it| it.destinations.get(prefix).cloned());
        let [old, new] = &destinations.map(Option::unwrap_or_default);
        let what = format!("destination {prefix}");
        compare(&what, &old.limits, &new.limits, "it");
        let to = format!("{what}, per source");
        compare(&to, &old.source_limits, &new.source_limits, "each source");
        let what = format!("{what}: observe");
        observed.extend(change(&what, [old, new], |it| it.observe, observe));
    }
    compare("node", &before.node.limits, &after.node.limits, "it");
    let interfaces = both.iter().flat_map(|it| &it.interfaces);
    let names: BTreeSet<&str> = interfaces.map(|it| &*it.name).collect();
    for name in names {
        let [old, new] = both.map(|config| config.node_of(name));
        let what = format!("interface {name}, instead of the node's");
        compare(&what, &old.limits, &new.limits, "it");
        let what = format!("{what}: observe");
        observed.extend(change(&what, [&old, &new], |it| it.observe, observe));
    }
    lines.extend(observed);
    lines
}

fn limits(limits: &[LimitSpec]) -> String {
    if limits.is_empty() {
        return "no limit".to_owned();
    }
    let limits: Vec<String> = limits.iter().map(ToString::to_string).collect();
    match &limits[..] {
        [front @ .., last] if !front.is_empty() => format!("{} and {last}", front.join(", ")),
        limits => limits.concat(),
    }
}

/// Counts the added and removed prefixes of a list. Returns `None` if there are none.
fn prefix_changes(what: &str, before: &[Prefix], after: &[Prefix]) -> Option<String> {
    let missing = |of: &[Prefix], from: &[Prefix]| {
        let others: BTreeSet<&Prefix> = from.iter().collect();
        of.iter().filter(|prefix| !others.contains(prefix)).count()
    };
    let (added, removed) = (missing(after, before), missing(before, after));
    (before != after).then(|| format!("{what}: +{added} -{removed}"))
}
