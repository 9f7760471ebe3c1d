//! Removes expired bans, allows, limits and list entries, and the offences of sources that were
//! quiet for long enough.
//!
//! The kernel ends them on its own. The database removes them later, or when the daemon starts.

use std::time::Duration;

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    intent::Edit,
    lists::Action,
};
use smart_default::SmartDefault;
use tracing::warn;

use super::Feed;
use crate::{
    clock,
    control::{reports::cause::Cause, state::State},
};

/// The interval at which expired list entries are removed.
const PRUNE: Duration = Duration::from_mins(1);

/// Removes expired rows. Entries of allow lists are removed at once, those of ban lists from time
/// to time, because the kernel already ignores them.
#[derive(SmartDefault)]
pub struct Ended {
    /// The last removal of list entries. Starts at the current time.
    #[default(clock::monotonic())]
    pruned: std::time::Instant,
}

impl Feed for Ended {
    const CAUSE: Cause<'static> = Cause::Time;

    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let forgotten = state.intent.forgotten(now).into_iter();
        let forgotten = forgotten.map(|source| Edit::Offence(source, None));
        let mut edits: Vec<Edit> = forgotten.chain(state.intent.ended(now)).collect();
        let may_wait = clock::elapsed(self.pruned) < PRUNE;
        let lists = state.intent.lists().iter();
        let due = lists.filter(|(_, list)| {
            list.soonest_end() <= now && (list.action == Action::Allow || !may_wait)
        });
        for (name, list) in due {
            let lasting = Some(list.without_ended(now));
            edits.extend(state.intent.list_edit(name, lasting).1);
            self.pruned = clock::monotonic();
        }
        Ok(edits)
    }

    fn settle(
        &mut self,
        _: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        answer.inspect_err(|refused| {
            let error = &refused.error;
            warn!(error, "cannot remove expired entries");
        })
    }
}
