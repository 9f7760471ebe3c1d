//! Access to the dashboard.

use std::path::PathBuf;

use crate::control::state::State;

/// Returns whether the dashboard is served on the listener of the metrics.
pub fn is_dashboard_open(state: &State) -> bool {
    state.intent.config.dashboard
}

/// Returns the file of the token that permits bans on the dashboard. `None` if it is read-only.
pub fn dashboard_token(state: &State) -> Option<PathBuf> {
    state.intent.config.dashboard_token.clone()
}
