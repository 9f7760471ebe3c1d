//! Creates the report of a period, and the claims for the period after the next.

use std::collections::{BTreeMap, BTreeSet};

use super::reports_by_key::Reported;
use super::shares_of_period::wish;
use super::{Budget, Own, Used};
use crate::budget::division::divide;
use crate::budget::{Count, KeyReport, Limit, Report, WindowUsage};
use crate::key::Key;
use crate::message::ENTRIES_MAX;
use crate::name::NodeName;

/// The inputs of a report.
struct Before<'a, K> {
    members: &'a [NodeName],
    size: u64,
    /// The reports of the others for the previous period.
    reported: Reported<'a, K>,
    /// The amounts that this node may admit.
    amounts: &'a BTreeMap<K, u64>,
}

impl<K: Key> Budget<K> {
    /// Creates the report of the period that has ended, with claims for the period after the next.
    /// Keys that only others need are given up at once: in the period that begins, this node has
    /// the newcomer's part of them.
    pub(super) fn report(
        &mut self,
        period: u64,
        limit: &impl Fn(&K) -> Option<Limit>,
        used: &Used<'_, K, impl Fn(&K) -> WindowUsage>,
        counts: Vec<Count<K>>,
        amounts: &mut BTreeMap<K, u64>,
    ) -> Option<Report<K>> {
        if period < self.reports_from {
            return None;
        }
        let (view, size) = (self.members.view(), self.members.size());
        let members: Vec<_> = self.members.names().iter().cloned().collect();
        let of = period.saturating_sub(1);
        let reported = Reported::of(&self.reports, (of, view), &members, &self.me);
        let missing = reported.missing.iter();
        let unheard = missing.filter_map(|place| u16::try_from(*place).ok());
        let unheard: Vec<_> = unheard.collect();
        let own = self.own.get(&of).filter(|own| own.report.view == view);
        let own = own.iter().flat_map(|own| &own.report.entries);
        let mut known: BTreeSet<_> = own.map(|entry| entry.key.clone()).collect();
        let mut wanted = BTreeSet::new();
        for (key, lines) in reported.keys() {
            known.insert(key.clone());
            if lines.iter().any(|line| line.entry.demand > 0) {
                wanted.insert(key.clone());
            }
        }
        let before = Before {
            members: &members,
            size,
            reported,
            amounts,
        };
        let asked = |count: &Count<K>| count.admitted.saturating_add(count.refused);
        let asked: Vec<_> = counts
            .iter()
            .map(|count| (count.key.clone(), asked(count)))
            .collect();
        let mut entries: Vec<_> = counts
            .into_iter()
            .filter_map(|count| self.busy(count, limit, used, &before))
            .collect();
        let busy: BTreeSet<_> = entries.iter().map(|entry| entry.key.clone()).collect();
        let asked = asked.into_iter().filter(|(key, _)| busy.contains(key));
        self.visits.note(period, asked);
        let idle: BTreeSet<_> = known.iter().chain(amounts.keys()).cloned().collect();
        for key in idle.difference(&busy) {
            let Some(limit) = limit(key) else {
                continue;
            };
            let claim = self.claim_idle(&limit, key, size);
            let mut amount = amounts.get(key).copied();
            if wanted.contains(key) {
                amount = Some(amount.map_or(claim, |amount| amount.min(claim)));
            }
            let held = (used.held)(key).then.max(amount.unwrap_or_default());
            let passed = used.passed.get(key).copied().unwrap_or_default();
            if let Some(amount) = amount {
                amounts.insert(key.clone(), amount);
            }
            if held.max(passed) > claim || claim > limit.newcomer(size) {
                entries.push(KeyReport {
                    key: key.clone(),
                    claim,
                    demand: 0,
                    held: held.min(limit.amount),
                    passed,
                });
            }
        }
        entries.sort_by(|one, other| {
            let weight = |entry: &KeyReport<K>| entry.demand.max(entry.held);
            weight(other)
                .cmp(&weight(one))
                .then_with(|| one.key.cmp(&other.key))
        });
        entries.truncate(ENTRIES_MAX);
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        entries.dedup_by(|one, other| one.key == other.key);
        let report = Report {
            period,
            view,
            unheard,
            entries,
        };
        known.retain(|key| report.entry(key).is_none());
        self.own.insert(
            period,
            Own {
                report: report.clone(),
                members,
                size,
                known,
            },
        );
        Some(report)
    }

    /// Returns the entry of a key of which this node needs more than half of its share.
    fn busy(
        &self,
        count: Count<K>,
        limit: &impl Fn(&K) -> Option<Limit>,
        used: &Used<'_, K, impl Fn(&K) -> WindowUsage>,
        before: &Before<'_, K>,
    ) -> Option<KeyReport<K>> {
        let limit = limit(&count.key)?;
        let demand = count
            .admitted
            .saturating_add(count.refused)
            .min(limit.amount);
        let amount = before.amounts.get(&count.key).copied();
        let share = amount.unwrap_or(limit.equal(self.sizes.0));
        let is_busy = demand.saturating_mul(2) > share.min(limit.equal(before.size));
        is_busy.then(|| KeyReport {
            claim: self.claim(&limit, demand, &count.key, before),
            demand,
            held: (used.held)(&count.key).then.max(share).min(limit.amount),
            passed: count.passed,
            key: count.key,
        })
    }

    /// Returns the claim for a key without demand here: more if its source is expected to return,
    /// within what the others leave.
    fn claim_idle(&self, limit: &Limit, key: &K, size: u64) -> u64 {
        let periods = (limit.window / self.period_length).max(1);
        let expected = self.visits.expected(key).saturating_mul(periods);
        let left = self.reserved.get(key).copied().unwrap_or_default();
        let most = limit.equal(size).min(left).min(expected);
        most.max(limit.newcomer(size))
    }

    /// Returns the claim for a busy key: the part it would have if no node claimed anything, capped
    /// by limit / nodes and by the remainder that the others leave now.
    fn claim(&self, limit: &Limit, demand: u64, key: &K, before: &Before<'_, K>) -> u64 {
        let size = before.size;
        let unknown = size - before.members.len() as u64;
        let missing = unknown + before.reported.missing.len() as u64;
        let place = before.members.binary_search(&self.me).unwrap_or_default();
        let mine = wish(0, demand, place as u64);
        let lines = before.reported.lines(key).iter();
        let mut others: Vec<_> = lines
            .map(|line| (wish(0, line.entry.demand, line.place), 1))
            .collect();
        others.push((wish(0, limit.amount, 0), missing));
        let parts = divide(limit, size, mine, &others, 0);
        let (least, most) = (limit.newcomer(size), limit.equal(size));
        // If a report is missing, the rest is unknown, and every node gets the same.
        let left = self.reserved.get(key).copied().filter(|_| missing == 0);
        let most = left.map_or(most, |left| left.clamp(least, most));
        parts.mine.clamp(least, most)
    }
}
