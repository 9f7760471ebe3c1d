//! `rlctl protected`.

use ratelimit_core::api::ProtectedView;

use crate::control::state::State;

/// What is protected from bans, and why.
pub fn protected(state: &State) -> Vec<ProtectedView> {
    state.protection.views(&state.compiled.rules)
}
