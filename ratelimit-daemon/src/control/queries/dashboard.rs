//! Who may see the dashboard, and change something there.

use std::path::PathBuf;

use crate::control::state::State;

/// Whether the dashboard is served on the listener of the metrics.
pub fn is_dashboard_open(state: &State) -> bool {
    state.intent.config.dashboard
}

/// The file of the token that lets one ban there; `None` where nobody may.
pub fn dashboard_token(state: &State) -> Option<PathBuf> {
    state.intent.config.dashboard_token.clone()
}
