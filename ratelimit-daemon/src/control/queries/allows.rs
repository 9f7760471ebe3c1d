//! `rlctl allow`: the allow list.

use ratelimit_core::{
    api::{Allow, Origin},
    counter_slots::Owner,
    prefix::Prefix,
};

use crate::{
    clock,
    control::{reports::rows, state::State},
};

/// Returns the allow list: the configured prefixes, and those added at runtime.
pub fn allows(state: &State) -> Vec<Allow> {
    let now = clock::now();
    let allows = state.intent.allows();
    let runtime = allows.iter().filter(|(_, row)| row.until > now);
    let runtime = runtime
        .map(|(prefix, row)| rows::allow(*prefix, row, state.counter(Owner::Allow(*prefix))));
    let configured = state.intent.config.allow.iter();
    let configured = configured.map(|prefix| configured_allow(state, *prefix));
    let mut allows: Vec<Allow> = runtime.chain(configured).collect();
    allows.sort_by_key(|allow| allow.prefix);
    allows
}

/// Returns a configured allow.
pub(super) fn configured_allow(state: &State, prefix: Prefix) -> Allow {
    Allow {
        prefix,
        until: None,
        since: None,
        reason: None,
        author: None,
        origin: Origin::Config,
        counter: state.counter(Owner::Allow(prefix)),
    }
}
