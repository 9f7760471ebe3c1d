//! Computes the shares of a period from the reports of two periods before.

use std::collections::{BTreeMap, BTreeSet};

use super::rate::Rate;
use super::reports_by_key::Reported;
use super::{Budget, Own, Used};
use crate::budget::division::{Parts, Wish, divide};
use crate::budget::{Limit, Share, WindowUsage};
use crate::key::Key;

impl<K: Key> Budget<K> {
    /// Computes this node's share of each key in a period, if it differs from the default.
    pub(super) fn divide(
        &mut self,
        period: u64,
        limit: &impl Fn(&K) -> Option<Limit>,
        before: BTreeMap<K, Share>,
        used: &Used<'_, K, impl Fn(&K) -> WindowUsage>,
    ) -> BTreeMap<K, u64> {
        let size = self.members.size();
        let mut amounts = BTreeMap::new();
        self.others.clear();
        self.reserved.clear();
        self.fallback = self.why_fallback(period);
        let of = period.saturating_sub(2);
        let Some(own) = self.own.get(&of) else {
            self.sizes.0 = self.sizes.1.max(size);
            let kept = before.into_iter().filter_map(|(key, share)| {
                let most = limit(&key)?.equal(self.sizes.0);
                let mine = share.then.min(most);
                Some((key, mine))
            });
            amounts.extend(kept);
            return amounts;
        };
        self.sizes.0 = own.size.max(size);
        let reported = Reported::of(&self.reports, (of, own.report.view), &own.members, &self.me);
        let busy = own.report.entries.iter().map(|entry| &entry.key);
        let parts = busy.chain(&own.known).filter_map(|key| {
            let limit = limit(key)?;
            let wanted = self.parts(of, own, &reported, key, &limit, false);
            let left = self.parts(of, own, &reported, key, &limit, true);
            let mut mine = wanted.mine.min(left.mine);
            if own.known.contains(key) {
                mine = limit.newcomer(own.size);
            }
            let rate = self.rate(own, &reported, key, &limit);
            let passed = used.passed.get(key).copied().unwrap_or_default();
            let in_all = rate.after(&limit, self.period_length, passed).left(&limit);
            mine = mine.min(most((used.held)(key), in_all));
            Some((key.clone(), mine, left.mine, wanted.others, rate))
        });
        let mut rates = BTreeMap::new();
        for (key, mine, left, others, rate) in parts.collect::<Vec<_>>() {
            rates.insert(key.clone(), rate);
            self.others.insert(key.clone(), others);
            self.reserved.insert(key.clone(), left);
            amounts.insert(key, mine);
        }
        self.rates = rates;
        amounts
    }

    /// Updates the long-term rate of a key with all reports of a period.
    fn rate(&self, own: &Own<K>, reported: &Reported<'_, K>, key: &K, limit: &Limit) -> Rate {
        let others = reported.lines(key).iter().map(|line| line.entry);
        let passed = others
            .chain(own.report.entry(key))
            .map(|entry| entry.passed.min(limit.amount))
            .fold(0, u64::saturating_add);
        let before = self.rates.get(key).copied();
        let before = before.unwrap_or_else(|| Rate::full(limit));
        before.after(limit, self.period_length, passed)
    }

    /// Sets shares with these amounts until the end of the period, and with the claims for the next
    /// one after it.
    pub(super) fn lease(
        &mut self,
        period: u64,
        limit: &impl Fn(&K) -> Option<Limit>,
        amounts: &BTreeMap<K, u64>,
    ) {
        let mut then = BTreeMap::new();
        if let Some(own) = self.own.get(&period.saturating_sub(1)) {
            self.sizes.1 = own.size;
            let entries = own.report.entries.iter();
            then.extend(entries.map(|entry| (entry.key.clone(), entry.claim)));
            let known = own.known.iter();
            then.extend(
                known.filter_map(|key| Some((key.clone(), limit(key)?.newcomer(own.size)))),
            );
        } else {
            // There are no claims for the next period, so the previous divisor stays.
            self.sizes.1 = self.sizes.1.max(self.members.size());
            let kept = amounts.iter().filter_map(|(key, amount)| {
                let most = limit(key)?.equal(self.sizes.1);
                Some((key.clone(), most.min(*amount)))
            });
            then.extend(kept);
        }
        let keys: BTreeSet<_> = amounts.keys().chain(then.keys()).cloned().collect();
        for key in keys {
            let Some(default) = limit(&key).map(|limit| self.default_share(&limit)) else {
                continue;
            };
            let share = Share {
                amount: amounts.get(&key).copied().unwrap_or(default.amount),
                until: self.lease_end,
                then: then.get(&key).copied().unwrap_or(default.then),
            };
            self.shares.insert(key, share);
        }
    }

    /// Returns this node's part of a key that is busy somewhere, and the total of the others.
    /// Unknown reports are replaced by the worst case. No node gets less than it already uses.
    fn parts(
        &self,
        period: u64,
        own: &Own<K>,
        reported: &Reported<'_, K>,
        key: &K,
        limit: &Limit,
        is_with_held: bool,
    ) -> Parts {
        let (equal, view) = (limit.equal(own.size), own.report.view);
        let floor = |claim: u64, held: u64| {
            let held = if is_with_held { held } else { 0 };
            claim.min(equal).max(held.min(limit.amount))
        };
        let mine = own.report.entry(key);
        let my_place = own.members.binary_search(&self.me).unwrap_or_default();
        // A node that heard that this node was busy with the key keeps the newcomer's part of it,
        // unless it is busy itself.
        let was_busy = self
            .own
            .get(&period.saturating_sub(1))
            .is_some_and(|own| own.report.view == view && own.report.entry(key).is_some());
        let mut others: Vec<_> = reported
            .lines(key)
            .iter()
            .map(|line| {
                let floor = floor(line.entry.claim, line.entry.held);
                (wish(floor, line.entry.demand, line.place), 1)
            })
            .collect();
        let silent = reported.silent(key);
        let newcomers = if was_busy { silent.have_heard } else { 0 };
        let idle = (limit.newcomer(own.size).saturating_mul(newcomers))
            .saturating_add(equal.saturating_mul(silent.all - newcomers));
        let unknown = own.size - own.members.len() as u64;
        let missing = unknown + reported.missing.len() as u64;
        others.push((wish(floor(equal, limit.amount), limit.amount, 0), missing));
        let newcomer = (limit.newcomer(own.size), 0);
        let (floor, demand) = mine.map_or(newcomer, |it| (floor(it.claim, it.held), it.demand));
        let mine = wish(floor, demand, my_place as u64);
        divide(limit, own.size, mine, &others, idle)
    }
}

pub(super) fn wish(claim: u64, demand: u64, place: u64) -> Wish {
    Wish {
        claim,
        demand,
        place,
    }
}

/// Returns the usage of a window with which a node admits `more` in a period. The rest of a window
/// that ends is admitted in addition to the new one.
fn most(held: WindowUsage, more: u64) -> u64 {
    if held.ending == 0 || held.ending >= more {
        return held.then.saturating_add(more);
    }
    held.then.saturating_add(held.ending.midpoint(more))
}
