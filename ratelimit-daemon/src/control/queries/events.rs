//! `rlctl events`, and the names of interfaces that events have.

use std::{collections::BTreeMap, sync::Arc};

use ratelimit_core::api::{Cursor, Event};
use tokio::sync::broadcast;

use crate::control::state::State;

/// So many changes, the last ones.
pub fn changes(state: &State, count: usize) -> Vec<Arc<Event>> {
    state.reports.journal.changes(count)
}

/// The events that are kept, the place behind them, and those that come. Asked in one turn, nothing is reported twice or left out.
pub fn events(state: &State) -> (Vec<Arc<Event>>, Cursor, broadcast::Receiver<Arc<Event>>) {
    let journal = &state.reports.journal;
    (journal.kept(), journal.cursor(), journal.follow())
}

/// The names of interfaces, by their indices.
pub fn interface_names(state: &State) -> BTreeMap<u32, String> {
    state.reports.journal.interfaces().clone()
}
