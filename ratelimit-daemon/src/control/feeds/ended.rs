//! What is over: bans, allows and limits, and sources that were quiet for long enough.
//!
//! The kernel ends them by itself, as it does entries of lists. The database forgets them later, and a daemon that starts forgets them too.

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
    control::{cause::Cause, state::State},
};

/// Has no state of its own.
pub struct Ended;

impl Feed for Ended {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let forgotten = state.intent.forgotten(now).into_iter();
        let forgotten = forgotten.map(|source| Edit::Offence(source, None));
        Ok(forgotten.chain(state.intent.ended(now)).collect())
    }

    fn cause(&self) -> Cause<'_> {
        Cause::Time
    }

    fn settle(&mut self, _: &State, answer: &Result<Changed, Refused>) {
        if let Err(refused) = answer {
            warn!(error = refused.error, "what is over could not be ended");
        }
    }
}

/// How often entries of lists that have ended are forgotten.
const PRUNE: Duration = Duration::from_mins(1);

/// The entries of lists that have ended: at once, where they allow, and else from time to time, because the kernel lets nobody be
/// banned by them.
#[derive(SmartDefault)]
pub struct EndedEntries {
    /// When they were last forgotten; at first as if that had been a moment ago.
    #[default(clock::monotonic())]
    pruned: std::time::Instant,
}

impl Feed for EndedEntries {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let may_wait = clock::elapsed(self.pruned) < PRUNE;
        let lists = state.intent.lists().iter();
        let due = lists.filter(|(_, list)| {
            list.soonest_end() <= now && (list.action == Action::Allow || !may_wait)
        });
        let left = due.map(|(name, list)| (name, list.without_ended(now)));
        let edits = left.filter_map(|(name, list)| state.intent.list_edit(name, Some(list)).1);
        let edits: Vec<Edit> = edits.collect();
        if !edits.is_empty() {
            self.pruned = clock::monotonic();
        }
        Ok(edits)
    }

    fn cause(&self) -> Cause<'_> {
        Cause::Time
    }

    fn settle(&mut self, _: &State, answer: &Result<Changed, Refused>) {
        if let Err(refused) = answer {
            warn!(
                error = refused.error,
                "entries of lists that ended could not be forgotten"
            );
        }
    }
}
