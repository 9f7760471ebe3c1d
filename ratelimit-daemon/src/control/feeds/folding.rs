//! Bans a prefix as a whole when enough of its sources are banned.

use std::collections::BTreeSet;

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    folding::{self, Fold},
    intent::{Edit, EntryRow},
    origin::Origin,
    prefix::Prefix,
};
use tracing::warn;

use super::{Feed, policy_bans::is_exempt};
use crate::control::{reports::rows, state::State};

/// The most exempt prefixes that are remembered as reported.
const EXEMPT_MAX: usize = 1024;

/// Folds the prefixes that have new bans.
#[derive(Default)]
pub struct Folding {
    /// Prefixes that may not be banned, as reported.
    exempt: BTreeSet<Prefix>,
}

impl Folding {
    /// Returns the change that a prefix needs.
    fn judge(&mut self, state: &State, fold: Fold, wide: Prefix, now: Instant) -> Option<Edit> {
        let bans = folding::members(&state.intent, wide).map(|(prefix, row)| (prefix, row.until));
        let until = fold.until(wide, bans.filter(|(_, until)| *until > now));
        let before = state.intent.ban_of(wide, &Origin::Folded);
        let Some(until) = until else {
            return before.map(|_| folding::unfold(wide));
        };
        if before.is_some_and(|row| row.until == until) {
            return None;
        }
        if is_exempt(state, wide) {
            if self.exempt.len() < EXEMPT_MAX && self.exempt.insert(wide) {
                warn!(
                    prefix = %wide,
                    "not folded: the prefix is allowed, or has an address that this host needs"
                );
            }
            return None;
        }
        let reason = format!("at least {} % of its sources are banned", fold.percent);
        let row = rows::entry(until, Some(reason), "folding");
        let since = before.map_or(row.since, |row| row.since);
        let row = EntryRow { since, ..row };
        Some(Edit::Ban(wide, Origin::Folded, Some(row)))
    }
}

impl Feed for Folding {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let Some(fold) = state.intent.config.fold else {
            return Ok(Vec::new());
        };
        let prefixes = state.noted.unjudged.prefixes(fold, &state.intent);
        let edits = prefixes
            .into_iter()
            .filter_map(|wide| self.judge(state, fold, wide, now));
        Ok(edits.collect())
    }

    /// A refused fold is tried again when another ban is added.
    fn settle(
        &mut self,
        state: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        state.noted.unjudged = folding::Unjudged::default();
        answer.inspect_err(|refused| warn!(error = refused.error, "cannot fold bans"))
    }
}
