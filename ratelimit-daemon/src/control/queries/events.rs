//! `rlctl events`, and the names of interfaces that events have.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_core::api::{Cursor, Event};
use tokio::sync::broadcast;

use crate::control::state::State;

/// Returns the last `count` changes.
pub fn changes(state: &State, count: usize) -> Vec<Arc<Event>> {
    state.reports.journal.changes(count)
}

/// Returns the stored events, the position behind them, and the following events. In a single
/// query, none is duplicated or missing.
pub fn events(state: &State) -> (Vec<Arc<Event>>, Cursor, broadcast::Receiver<Arc<Event>>) {
    let journal = &state.reports.journal;
    (journal.kept(), journal.cursor(), journal.follow())
}

/// Returns the names of interfaces by index.
pub fn interface_names(state: &State) -> BTreeMap<u32, String> {
    state.reports.journal.interfaces().clone()
}
