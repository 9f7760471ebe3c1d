//! The periods of one node: counts become reports, reports become shares.

use std::collections::{BTreeMap, BTreeSet};

use super::division::{Parts, Wish, divide};
use super::members::{Members, Views};
use super::reports::{PERIODS, Reports};
use super::{Count, Entry, Fallback, Limit, Report, Share};
use crate::key::Key;
use crate::message::{ENTRIES_MAX, Refusal};
use crate::name::NodeName;
use crate::time::Millis;

/// A node that starts reports nothing for so many periods: it may have reported them before it was restarted.
const QUIET: u64 = 2;

/// What this node reported of a period, and what it promised with it.
#[derive(Clone, Debug)]
struct Own<K> {
    report: Report<K>,
    members: Vec<NodeName>,
    size: u64,
    /// Keys that others reported the period before and this node did not: of them it keeps the newcomer's part.
    known: BTreeSet<K>,
}

/// What one node knows and does about budgets.
#[derive(Clone, Debug)]
pub struct Budget<K> {
    me: NodeName,
    period_length: Millis,
    /// The current period, once the cluster's clock is known.
    period: Option<u64>,
    reports_from: u64,
    lease_end: Millis,
    members: Members,
    reports: Reports<K>,
    own: BTreeMap<u64, Own<K>>,
    shares: BTreeMap<K, Share>,
    /// What the others have of the keys that the last division was about.
    others: BTreeMap<K, u64>,
    fallback: Option<Fallback>,
    /// By how many a limit is divided where a key has no share of its own, in this period and after it.
    sizes: (u64, u64),
}

impl<K: Key> Budget<K> {
    /// Begins with what is remembered; `shares` is what the kernel still holds.
    #[must_use]
    pub fn new(
        me: NodeName,
        period_length: Millis,
        views: Views,
        shares: BTreeMap<K, u64>,
        divided_by: u64,
    ) -> Self {
        let members = Members::new(me.clone(), 0, views);
        let size = members.size().max(divided_by);
        let shares = shares
            .into_iter()
            .map(|(key, then)| {
                (
                    key,
                    Share {
                        amount: then,
                        until: 0,
                        then,
                    },
                )
            })
            .collect();
        let (reports, own) = (Reports::default(), BTreeMap::new());
        Self {
            me,
            period_length,
            period: None,
            reports_from: 0,
            lease_end: 0,
            members,
            reports,
            own,
            shares,
            others: BTreeMap::new(),
            fallback: Some(Fallback::NoClock),
            sizes: (size, size),
        }
    }

    /// The members.
    #[must_use]
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The members, to be changed by what is heard of them.
    pub fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    /// The current period, once the cluster's clock is known.
    #[must_use]
    pub fn period(&self) -> Option<u64> {
        self.period
    }

    /// The view and the number of members by which the shares of this period were divided, and of what holds after it; without a view
    /// where this node reported nothing two periods before.
    #[must_use]
    pub fn divided_by(&self) -> [(Option<u64>, u64); 2] {
        let view = |back| {
            self.own
                .get(&self.period?.checked_sub(back)?)
                .map(|own| own.report.view)
        };
        [(view(2), self.sizes.0), (view(1), self.sizes.1)]
    }

    /// The keys that have a share of their own.
    pub fn shares(&self) -> impl Iterator<Item = (&K, Share)> {
        self.shares.iter().map(|(key, share)| (key, *share))
    }

    /// What all other nodes have of a key in this period; nothing where their reports are not all known.
    #[must_use]
    pub fn others(&self, key: &K) -> Option<u64> {
        self.others
            .get(key)
            .copied()
            .filter(|_| self.fallback.is_none())
    }

    /// Why this node has no more of any limit in this period than it may always claim; nothing where limits are divided.
    #[must_use]
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// The share of every other key of a limit.
    #[must_use]
    pub fn default_share(&self, limit: &Limit) -> Share {
        Share {
            amount: limit.equal(self.sizes.0),
            until: self.lease_end,
            then: limit.equal(self.sizes.1),
        }
    }

    /// Takes another node's report.
    ///
    /// # Errors
    /// It has two reports of a period, or claims more than anybody may.
    pub fn take(
        &mut self,
        node: &NodeName,
        report: Report<K>,
        limit: impl Fn(&K) -> Option<Limit>,
    ) -> Result<(), Refusal> {
        let Some(period) = self
            .period
            .filter(|period| period.abs_diff(report.period) <= PERIODS)
        else {
            return Ok(());
        };
        if report.view == self.members.view() {
            let size = self.members.size();
            let is_above = |entry: &Entry<K>| {
                limit(&entry.key).is_none_or(|limit| entry.claim > limit.equal(size))
            };
            if report.entries.iter().any(is_above) {
                let what = "a claim above the limit divided by the nodes, or of an unknown limit";
                return Err(Refusal::Report {
                    node: node.clone(),
                    what,
                });
            }
        }
        let of = report.period;
        self.reports.keep_around(period);
        if self.reports.take(node, report) {
            Ok(())
        } else {
            Err(Refusal::TwoReports {
                node: node.clone(),
                period: of,
            })
        }
    }

    /// Whether the cluster's clock shows another period than the current one. One that goes back a little is waited for, with what the
    /// leases leave.
    #[must_use]
    pub fn is_over(&self, cluster: Millis) -> bool {
        let shown = cluster / self.period_length;
        self.period
            .is_none_or(|period| shown > period || period - shown > PERIODS)
    }

    /// Goes to the period that the cluster's clock shows. Where it is a new one, shares change, and there may be a report.
    pub fn advance(
        &mut self,
        cluster: Millis,
        monotonic: Millis,
        context: u64,
        limit: impl Fn(&K) -> Option<Limit>,
        counts: Vec<Count<K>>,
    ) -> Option<Report<K>> {
        if !self.is_over(cluster) {
            return None;
        }
        let period = cluster / self.period_length;
        if self.period.is_none_or(|before| before > period) {
            // What was reported once is not reported again, unless the clock went back so far that nobody has those reports.
            let reported = self.period.filter(|before| before - period <= 4 * PERIODS);
            self.reports_from = reported.unwrap_or(period + QUIET);
            self.own.clear();
            self.reports = Reports::default();
        }
        self.period = Some(period);
        self.lease_end = monotonic + self.period_length;
        self.members.set_context(context);
        self.members.period_over();
        self.reports.keep_around(period);
        self.own.retain(|of, _| of.abs_diff(period) <= PERIODS);
        let report = self.report(period.saturating_sub(1), &limit, counts);
        self.divide(period, &limit);
        report
    }

    /// What is reported of the period that is over, and promised for the one after next.
    fn report(
        &mut self,
        period: u64,
        limit: &impl Fn(&K) -> Option<Limit>,
        counts: Vec<Count<K>>,
    ) -> Option<Report<K>> {
        if period < self.reports_from {
            return None;
        }
        let (view, size) = (self.members.view(), self.members.size());
        let members: Vec<_> = self.members.names().iter().cloned().collect();
        let before: Vec<_> = members
            .iter()
            .map(|name| self.report_of(period.saturating_sub(1), name, view))
            .collect();
        let unheard = members
            .iter()
            .zip(&before)
            .enumerate()
            .filter(|(_, (name, report))| report.is_none() && **name != self.me);
        let unheard: Vec<_> = unheard
            .filter_map(|(place, _)| u16::try_from(place).ok())
            .collect();
        let mut entries: Vec<_> = counts
            .into_iter()
            .filter_map(|count| {
                let limit = limit(&count.key)?;
                let demand = count
                    .admitted
                    .saturating_add(count.refused)
                    .min(limit.amount);
                let share = self
                    .shares
                    .get(&count.key)
                    .map_or(limit.equal(self.sizes.0), |share| share.amount);
                let is_busy = demand.saturating_mul(2) > share.min(limit.equal(size));
                is_busy.then(|| Entry {
                    claim: self.claim(&limit, size, demand, &count.key, &members, &before),
                    key: count.key,
                    demand,
                })
            })
            .collect();
        entries.sort_by(|one, other| {
            other
                .demand
                .cmp(&one.demand)
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
        let known = before
            .into_iter()
            .flatten()
            .flat_map(|report| &report.entries)
            .map(|entry| &entry.key);
        let known = known
            .filter(|key| report.entry(key).is_none())
            .cloned()
            .collect();
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

    /// What is claimed of a busy key: its part if nobody claimed anything, within what is everybody's right.
    fn claim(
        &self,
        limit: &Limit,
        size: u64,
        demand: u64,
        key: &K,
        members: &[NodeName],
        before: &[Option<&Report<K>>],
    ) -> u64 {
        let mut others = Vec::new();
        let mut missing = size - members.len() as u64;
        let mut mine = wish(0, demand, 0);
        for ((name, report), place) in members.iter().zip(before).zip(0..) {
            match report {
                _ if *name == self.me => mine.place = place,
                Some(report) => {
                    let entry = report.entry(key);
                    others.extend(entry.map(|entry| (wish(0, entry.demand, place), 1)));
                }
                None => missing += 1,
            }
        }
        others.push((wish(0, limit.amount, 0), missing));
        let parts = divide(limit, size, mine, &others, 0);
        parts.mine.clamp(limit.newcomer(size), limit.equal(size))
    }

    /// The shares of a period, from the reports of two periods before, and what holds after it.
    fn divide(&mut self, period: u64, limit: &impl Fn(&K) -> Option<Limit>) {
        let size = self.members.size();
        let mut amounts = BTreeMap::new();
        let before = core::mem::take(&mut self.shares);
        self.others.clear();
        self.fallback = self.why_fallback(period);
        if let Some(own) = self.own.get(&period.saturating_sub(2)) {
            self.sizes.0 = own.size.max(size);
            let of = period.saturating_sub(2);
            let busy = own.report.entries.iter().map(|entry| &entry.key);
            let parts = busy.chain(&own.known).filter_map(|key| {
                let limit = limit(key)?;
                let mut parts = self.parts(of, own, key, &limit);
                if own.known.contains(key) {
                    parts.mine = limit.newcomer(own.size);
                }
                Some((key.clone(), parts))
            });
            for (key, Parts { mine, others }) in parts.collect::<Vec<_>>() {
                self.others.insert(key.clone(), others);
                amounts.insert(key, mine);
            }
        } else {
            self.sizes.0 = self.sizes.1.max(size);
            let held = before.into_iter().filter_map(|(key, share)| {
                let most = limit(&key)?.equal(self.sizes.0);
                Some((key, share.then.min(most)))
            });
            amounts.extend(held);
        }
        let mut then = BTreeMap::new();
        if let Some(own) = self.own.get(&period.saturating_sub(1)) {
            self.sizes.1 = own.size;
            then.extend(
                own.report
                    .entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.claim)),
            );
            then.extend(
                own.known
                    .iter()
                    .filter_map(|key| Some((key.clone(), limit(key)?.newcomer(own.size)))),
            );
        } else {
            // Nothing was promised for the next period, so what held before holds on.
            self.sizes.1 = self.sizes.1.max(size);
            then.clone_from(&amounts);
            then.retain(|key, amount| {
                limit(key).is_some_and(|limit| {
                    *amount = (*amount).min(limit.equal(self.sizes.1));
                    true
                })
            });
        }
        let keys: BTreeSet<_> = amounts.keys().chain(then.keys()).cloned().collect();
        for key in keys {
            if let Some(default) = limit(&key).map(|limit| self.default_share(&limit)) {
                let amount = amounts.get(&key).copied().unwrap_or(default.amount);
                let then = then.get(&key).copied().unwrap_or(default.then);
                self.shares.insert(
                    key,
                    Share {
                        amount,
                        until: self.lease_end,
                        then,
                    },
                );
            }
        }
    }

    /// This node's part of a key that is busy somewhere, and what the others have. What it does not know of another one is taken for the
    /// worst.
    fn parts(&self, period: u64, own: &Own<K>, key: &K, limit: &Limit) -> Parts {
        let (equal, view) = (limit.equal(own.size), own.report.view);
        let mine = own.report.entry(key);
        let my_place = own.members.binary_search(&self.me).unwrap_or_default();
        // Who heard that this node was busy with the key keeps the newcomer's part of it, if it is not busy itself.
        let told = self
            .own
            .get(&period.saturating_sub(1))
            .filter(|own| own.report.view == view && own.report.entry(key).is_some());
        let mut others = Vec::new();
        let mut missing = own.size - own.members.len() as u64;
        let mut idle = 0;
        for (name, place) in own.members.iter().zip(0..) {
            if *name == self.me {
                continue;
            }
            let Some(report) = self.report_of(period, name, view) else {
                missing += 1;
                continue;
            };
            if let Some(entry) = report.entry(key) {
                others.push((wish(entry.claim.min(equal), entry.demand, place), 1));
                continue;
            }
            let has_heard = told.is_some() && report.has_heard(my_place);
            idle += if has_heard {
                limit.newcomer(own.size)
            } else {
                equal
            };
        }
        others.push((wish(equal, limit.amount, 0), missing));
        let (claim, demand) =
            mine.map_or((limit.newcomer(own.size), 0), |it| (it.claim, it.demand));
        let mine = wish(claim, demand, my_place as u64);
        divide(limit, own.size, mine, &others, idle)
    }

    /// Why the division of a period can only take the others for the worst.
    fn why_fallback(&self, period: u64) -> Option<Fallback> {
        let of = period.saturating_sub(2);
        let Some(own) = self.own.get(&of) else {
            return Some(Fallback::Started);
        };
        let is_heard = |name: &NodeName| self.report_of(of, name, own.report.view).is_some();
        let members: Vec<_> = own
            .members
            .iter()
            .filter(|name| !is_heard(name))
            .cloned()
            .collect();
        let more = own.size - own.members.len() as u64;
        (!members.is_empty() || more > 0).then_some(Fallback::Unheard { members, more })
    }

    fn report_of(&self, period: u64, name: &NodeName, view: u64) -> Option<&Report<K>> {
        if *name == self.me {
            return self
                .own
                .get(&period)
                .map(|own| &own.report)
                .filter(|report| report.view == view);
        }
        self.reports.of(period, name, view)
    }
}

fn wish(claim: u64, demand: u64, place: u64) -> Wish {
    Wish {
        claim,
        demand,
        place,
    }
}
