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
            .filter(|(source, row)| row.is_full && !full.contains(source))
            .map(|(source, row)| {
                let of_attack = row.kind.is_some().then(|| row.clone());
                let row = of_attack.map(|row| LimitedRow {
                    is_full: false,
                    ..row
                });
                Edit::Limited(*source, row)
            });
        let renewed = later(now, RENEWED);
        let come = full
            .iter()
            .filter(|source| {
                let is_held =
                    |row: &LimitedRow| row.is_full && (row.kind.is_some() || row.until >= renewed);
                !limited.get(source).is_some_and(is_held)
            })
            .map(|source| {
                let row = limited.get(source);
                let of_attack = row.filter(|row| row.kind.is_some()).cloned();
                let row = of_attack.unwrap_or_else(|| LimitedRow {
                    until: later(now, LASTS),
                    since: row.map_or_else(|| clock::to_wall(now), |row| row.since),
                    kind: None,
                    limit: tcp_connections::limit(),
                    is_full: true,
                });
                let row = LimitedRow {
                    is_full: true,
                    ..row
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
