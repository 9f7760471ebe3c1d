//! What was adopted from the kernel in place of lists and of `CrowdSec`, until they say again whom they ban and allow.

use ratelimit_core::intent::Edit;
use tracing::{info, warn};

use crate::control::{lists::KEPT, reports::cause::Cause, state::State};

/// Whether there is any.
pub fn is_there(state: &State) -> bool {
    let lists = state.intent.lists();
    KEPT.iter().any(|(name, _)| lists.contains_key(*name))
}

/// The edits that take it away.
pub fn due(state: &State) -> Vec<Edit> {
    let gone = KEPT.map(|(name, _)| state.intent.list_edit(&name.into(), None));
    gone.into_iter().filter_map(|(_, edit)| edit).collect()
}

/// Takes it away.
pub fn take_away(state: &mut State) {
    let lists = state.intent.lists();
    let kept = KEPT.iter().filter_map(|(name, _)| lists.get(*name));
    let entries: usize = kept.map(|list| list.entries().len()).sum();
    match state.apply(due(state), Cause::Origin) {
        Ok(_) => info!(
            entries,
            "lists and CrowdSec say again whom they ban and allow: what was kept from the kernel in their place is gone"
        ),
        Err(refused) => warn!(
            error = refused.error,
            "what was kept from the kernel could not be taken away"
        ),
    }
}
