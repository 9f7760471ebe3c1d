//! Shell completion: verbs and options from the command line definition, names from the daemon.
//!
//! The shell calls `rlctl` with the variable `COMPLETE`, so its script cannot become outdated.

use std::{collections::BTreeSet, ffi::OsStr, time::Duration};

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use ratelimit_core::api::{AppliesTo, Ban, ClusterStatus, ListView, Origin, PolicyView};
use serde::de::DeserializeOwned;

use crate::client::{self, Client};

/// The longest wait after Tab.
const PATIENCE: Duration = Duration::from_secs(1);

/// Proposes the names of lists.
pub fn lists() -> ArgValueCompleter {
    from("/v1/lists", |list: ListView| vec![list.name.to_string()])
}

/// Proposes the names of lists that no file has: those that can be removed.
pub fn imported_lists() -> ArgValueCompleter {
    from("/v1/lists", |list: ListView| match list.file {
        None => vec![list.name.to_string()],
        Some(_) => Vec::new(),
    })
}

/// Proposes prefixes that are banned: at most as many as one answer of the daemon has.
pub fn banned() -> ArgValueCompleter {
    from("/v1/bans", |ban: Ban| vec![ban.prefix.to_string()])
}

/// Proposes prefixes that have limits of their own.
pub fn limited() -> ArgValueCompleter {
    from("/v1/limits", prefixes)
}

/// Proposes prefixes whose limits were set at runtime.
pub fn limited_at_runtime() -> ArgValueCompleter {
    from("/v1/limits", |policy: PolicyView| match policy.runtime {
        Some(_) if policy.applies_to == AppliesTo::Source => prefixes(policy),
        _ => Vec::new(),
    })
}

/// Proposes what `[history] watch` can name: policies, prefixes that have limits of their own, and
/// the node.
pub fn watched() -> ArgValueCompleter {
    from("/v1/limits", |policy: PolicyView| {
        if policy.origin != Origin::Config || policy.applies_to != AppliesTo::Source {
            return prefixes(policy);
        }
        let name = format!("policy:{}", policy.name);
        prefixes(policy).into_iter().chain([name]).collect()
    })
}

/// Proposes the nodes of the cluster.
pub fn nodes() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let status = client().get::<ClusterStatus>("/v1/cluster");
        let nodes = status.into_iter().flat_map(|status| status.value.nodes);
        matching(typed, nodes.map(|node| node.name))
    })
}

/// Proposes where bans come from: the words, and the names of those in force.
pub fn origins() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let words = [
            "manual",
            "forced",
            "automatic",
            "folded",
            "crowdsec",
            "program",
            "cluster",
        ];
        let bans = client().get::<Vec<Ban>>("/v1/bans");
        let bans = bans.into_iter().flat_map(|bans| bans.value);
        let names = bans.map(|ban| ban.origin.to_string());
        let all = words.map(str::to_owned).into_iter().chain(names);
        matching(typed, all.collect::<BTreeSet<_>>())
    })
}

/// Proposes the interfaces of this host.
pub fn interfaces() -> ArgValueCompleter {
    ArgValueCompleter::new(|typed: &OsStr| {
        let names = ratelimit_interface::names().unwrap_or_default();
        matching(typed, names.into_values())
    })
}

fn prefixes(policy: PolicyView) -> Vec<String> {
    let prefixes = policy.prefixes.into_iter();
    prefixes.map(|it| it.to_string()).collect()
}

/// Proposes names from the daemon that match; none without a daemon, because a shell cannot show
/// errors.
fn from<T: DeserializeOwned + 'static>(
    path: &'static str,
    names: fn(T) -> Vec<String>,
) -> ArgValueCompleter {
    ArgValueCompleter::new(move |typed: &OsStr| -> Vec<CompletionCandidate> {
        let all = client().get::<Vec<T>>(path);
        let all = all.into_iter().flat_map(|all| all.value);
        matching(typed, all.flat_map(names))
    })
}

fn client() -> Client {
    Client::new(client::default_socket()).within(PATIENCE)
}

fn matching(typed: &OsStr, names: impl IntoIterator<Item = String>) -> Vec<CompletionCandidate> {
    let typed = typed.to_str();
    let begins = |name: &String| typed.is_some_and(|typed| name.starts_with(typed));
    names
        .into_iter()
        .filter(begins)
        .map(CompletionCandidate::new)
        .collect()
}
