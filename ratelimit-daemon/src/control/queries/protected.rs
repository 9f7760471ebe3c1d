//! `rlctl protected`.

use ratelimit_core::api::ProtectedView;

use crate::control::state::State;

/// Returns the prefixes protected from bans, with reasons.
pub fn protected(state: &State) -> Vec<ProtectedView> {
    state.protection.views(&state.compiled.rules)
}
