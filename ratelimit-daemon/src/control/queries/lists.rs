//! The lists, as `rlctl list lists` shows them.

use std::sync::Arc;

use ratelimit_core::{
    api::{ExemptEntries, ListView},
    counter_slots::Owner,
    policies::policy_of_list,
};

use crate::{
    clock,
    control::{controller::Controller, lists::files::ListFiles, state::State},
};

/// The lists, by name: those that there are, and those that never could be read.
pub fn lists(controller: &Controller) -> Vec<ListView> {
    let (state, files) = (&controller.state, &controller.feeds.list_files);
    let configured = state
        .intent
        .config
        .lists
        .keys()
        .map(|name| Arc::from(name.as_str()));
    let mut names: Vec<Arc<str>> = state
        .intent
        .lists()
        .keys()
        .cloned()
        .chain(configured)
        .collect();
    names.sort();
    names.dedup();
    names
        .into_iter()
        .map(|name| view(state, files, name))
        .collect()
}

fn view(state: &State, files: &ListFiles, name: Arc<str>) -> ListView {
    let list = state.intent.lists().get(&name);
    let config = state.intent.config.lists.get(&*name);
    let file = files.state(&name);
    let action = list
        .map(|list| list.action)
        .or(config.map(|config| config.action));
    ListView {
        action: action.unwrap_or_default(),
        entries: list.map_or(0, |list| list.len_at(clock::now())),
        file: config.map(|config| config.file.display().to_string()),
        every_seconds: config.and_then(|config| Some(config.every?.as_secs_f64())),
        since: list.map(|list| list.since),
        read: file.read,
        fetched: file.fetched,
        errors: file.errors,
        error: file.error,
        exempt: list.map_or_else(ExemptEntries::default, |list| {
            state.protection.all().exempt_of(list)
        }),
        connected_unsaid: match (list, config) {
            (Some(list), Some(config)) if config.connected.is_none() => {
                state.protection.all().describe_cut(&list.cut).count
            }
            _ => 0,
        },
        counter: match policy_of_list(&name) {
            Some(policy) => state.policy_counter(policy),
            None => state.counter(Owner::List(&name)),
        },
        name,
    }
}
