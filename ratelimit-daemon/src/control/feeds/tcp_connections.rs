//! Sources with as many TCP connections as their policy permits, which cannot open others.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{Changed, Refused},
    intent::{Edit, LimitedRow, renewed::later},
    prefix::Prefix,
    tcp_connections,
};

use super::{Feed, policy_bans};
use crate::{
    clock,
    control::{reports::troubles::CONNECTIONS, state::State},
};

/// The most sources that are limited at a time. Each has an entry in the kernel.
const SOURCES_MAX: usize = 10_000;
/// How long a source stays limited if connections cannot be counted any more.
const LASTS: Duration = Duration::from_mins(1);
/// The remaining time at which its limit is renewed.
const RENEWED: Duration = Duration::from_secs(30);

/// The connections of sources that may have reached a limit, at the last count.
#[derive(Debug, Default)]
pub struct Connections {
    counted: BTreeMap<Prefix, u32>,
    /// Whether there are more than [`SOURCES_MAX`].
    has_more: bool,
}

impl Connections {
    /// Records a count.
    pub fn note(&mut self, counted: BTreeMap<Prefix, u32>) {
        self.counted = counted;
    }
}

impl Feed for Connections {
    fn due(&mut self, state: &State, now: Instant) -> Result<Vec<Edit>, Refused> {
        let intent = &state.intent;
        let is_full = |source: Prefix, connections: u32| {
            let most = intent.connections_of(source);
            most.is_some_and(|most| connections >= most.get())
                && !intent.config.observe
                && !policy_bans::is_exempt(state, source)
        };
        let counted = self.counted.iter().map(|(source, count)| (*source, *count));
        let mut all = counted.filter(|(source, count)| is_full(*source, *count));
        let full: BTreeSet<Prefix> = all.by_ref().take(SOURCES_MAX).map(|it| it.0).collect();
        self.has_more = all.next().is_some();
        let limited = intent.limited();
        let gone = limited
            .iter()
            .filter(|(source, row)| row.kind.is_none() && !full.contains(source))
            .map(|(source, _)| Edit::Limited(*source, None));
        let renewed = later(now, RENEWED);
        let come = full
            .iter()
            .filter(|source| {
                let row = limited.get(source);
                // The limit of an attack is no looser, as a rule, and there is one for each source.
                row.is_none_or(|row| row.kind.is_none() && row.until < renewed)
            })
            .map(|source| {
                let since = limited.get(source).map(|row| row.since);
                let row = LimitedRow {
                    until: later(now, LASTS),
                    since: since.unwrap_or_else(|| clock::to_wall(now)),
                    kind: None,
                    limit: tcp_connections::limit(),
                };
                Edit::Limited(*source, Some(row))
            });
        Ok(gone.chain(come).collect())
    }

    fn settle(
        &mut self,
        state: &mut State,
        answer: Result<Changed, Refused>,
    ) -> Result<Changed, Refused> {
        let left_out = self.has_more.then(|| {
            format!("only {SOURCES_MAX} of the sources with too many connections are limited")
        });
        let refused = answer.as_ref().err().map(|refused| refused.error.clone());
        state.report(CONNECTIONS, refused.or(left_out));
        answer
    }
}
