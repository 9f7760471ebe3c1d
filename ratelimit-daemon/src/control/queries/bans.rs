//! The bans.

use std::sync::Arc;

use ratelimit_core::{
    api::{Ban, BanFilter, EntryCounter, Origin},
    counter_slots::Owner,
    folding::members,
    intent::{EntryRow, Intent},
    lists::Action,
    prefix::Prefix,
};

use crate::{
    clock,
    control::{
        controller::{
            Controller,
            handle::{Handle, Unanswered},
        },
        lists::export,
        reports::rows,
        state::State,
        time::expiry,
    },
};

/// The bans that a filter has, in the order of their prefixes. Entries of lists are among them
/// where it looks into lists.
pub async fn bans(controller: &Handle, filter: BanFilter) -> Result<Vec<Ban>, Unanswered> {
    let mut bans = bans_in_parts(controller).await?;
    let now = clock::wall();
    bans.retain(|ban| filter.has(ban, now));
    if filter.looks_into_lists() {
        let listed = controller.ask(move |it| listed(&it.state.intent, &filter));
        bans.extend(listed.await?);
        bans.sort_by_key(|ban| ban.prefix);
    }
    Ok(bans)
}

/// The entries of lists that ban, and that a filter has.
fn listed(intent: &Intent, filter: &BanFilter) -> Vec<Ban> {
    let (now, wall) = (clock::now(), clock::wall());
    let lists = intent.lists_for(Action::Ban);
    let bans = lists.flat_map(|(name, list)| {
        let is_within = |prefix| filter.within.is_none_or(|within| within.covers(prefix));
        let entries = list.entries().iter();
        let entries = entries.filter(move |entry| entry.until > now && is_within(entry.prefix));
        entries.map(move |entry| Ban {
            prefix: entry.prefix,
            until: expiry::reported(entry.until),
            since: list.since,
            reason: list.reasons.get(entry.reason).map(Arc::from),
            author: Arc::clone(&list.author),
            origin: Origin::List(Arc::clone(name)),
            folded: None,
            // Packets are counted for a list as a whole.
            counter: EntryCounter::default(),
        })
    });
    bans.filter(|ban| filter.has(ban, wall)).collect()
}

/// The bans, in the order of their prefixes and origins. The controller is asked for them part by
/// part: those that are there all the while are reported.
pub async fn bans_in_parts(controller: &Handle) -> Result<Vec<Ban>, Unanswered> {
    let mut bans = Vec::new();
    let mut behind = None;
    loop {
        let part = controller.ask(move |it| part(it, behind.as_ref())).await?;
        let Some(last) = part.last() else {
            return Ok(bans);
        };
        behind = Some((last.prefix, last.origin.clone()));
        bans.extend(part);
    }
}

/// The bans, in the order of their prefixes and origins, all at once.
pub fn all_bans(controller: &Controller) -> Vec<Ban> {
    let mut bans: Vec<Ban> = Vec::new();
    loop {
        let behind = bans.last().map(|ban| (ban.prefix, ban.origin.clone()));
        let part = part(controller, behind.as_ref());
        if part.is_empty() {
            return bans;
        }
        bans.extend(part);
    }
}

/// The next bans behind one.
fn part(controller: &Controller, behind: Option<&(Prefix, Origin)>) -> Vec<Ban> {
    let state = &controller.state;
    let part = export::some_bans(&state.intent, behind).into_iter();
    part.map(|(prefix, origin, row)| reported_ban(state, prefix, &origin, &row))
        .collect()
}

/// A ban as the API reports it, with its counter.
pub(super) fn reported_ban(state: &State, prefix: Prefix, origin: &Origin, row: &EntryRow) -> Ban {
    let owner = if let Origin::List(name) = origin {
        Owner::List(name)
    } else {
        Owner::Ban(prefix, origin)
    };
    let folded = (*origin == Origin::Folded).then(|| members(&state.intent, prefix).count());
    Ban {
        folded,
        ..rows::ban(prefix, origin, row, state.counter(owner))
    }
}
