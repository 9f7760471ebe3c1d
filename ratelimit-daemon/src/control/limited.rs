//! Sources of attacks get a further limit for a time (`intent/limited.rs` in the core says what that is).

use std::collections::BTreeMap;

use ratelimit_core::{
    api::Limited,
    detection::{Answer, Kind},
    intent::{Edit, LimitedRow, renewed::later},
    prefix::Prefix,
};
use tracing::warn;

use super::{controller::Controller, state::State};
use crate::clock;

impl State {
    /// The further limit of the narrowest prefix around `source` that has one.
    pub(super) fn limited_view(&self, source: Prefix) -> Option<Limited> {
        source.supernets().rev().find_map(|prefix| {
            let row = self.intent.limited().get(&prefix)?;
            Some(Limited {
                prefix,
                until: clock::to_wall(row.until),
                since: row.since,
                kind: row.kind,
                limit: row.limit.clone(),
            })
        })
    }
}

impl Controller {
    /// Limits the sources that are to be.
    pub(super) fn limit_attackers(&mut self, to_blame: &[(Kind, Prefix)]) {
        let mut edits: BTreeMap<Prefix, Edit> = BTreeMap::new();
        for (kind, source) in to_blame {
            let rule = self.state.intent.config.attacks.get(kind).cloned();
            let Some(rule) = rule.filter(|rule| rule.answer == Answer::Limit) else {
                continue;
            };
            let is_limited =
                edits.contains_key(source) || self.state.intent.has_further(*source, &rule.limit);
            if is_limited
                || self.state.intent.banned_until(*source).is_some()
                || self.state.is_spared(*source)
            {
                continue;
            }
            if !self.may_answer() {
                break;
            }
            let row = LimitedRow {
                until: later(clock::now(), rule.length),
                since: clock::to_wall(clock::now()),
                kind: *kind,
                limit: rule.limit,
            };
            *self.attacks.limited.entry(*kind).or_default() += 1;
            edits.insert(*source, Edit::Limited(*source, Some(row)));
        }
        if edits.is_empty() {
            return;
        }
        let edits: Vec<Edit> = edits.into_values().collect();
        if let Err(refused) = self.state.edit(edits) {
            let error = refused.error;
            warn!(error, "sources of attacks could not be limited");
        }
    }
}
