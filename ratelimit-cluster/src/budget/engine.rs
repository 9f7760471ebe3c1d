//! The periods of a node: counts become reports, and reports become shares.

mod own_report;
mod rate;
mod reports_by_key;
mod shares_of_period;
mod visits;

use std::collections::{BTreeMap, BTreeSet};

use self::rate::Rate;
use self::visits::Visits;
use super::members::{Members, Views};
use super::reports::{PERIODS, Reports};
use super::{Count, Fallback, KeyReport, Limit, Report, Share, WindowUsage};
use crate::key::Key;
use crate::message::Refusal;
use crate::name::NodeName;
use crate::time::Millis;

/// The number of periods without a report after a start, because they may have been reported before
/// a restart.
const QUIET: u64 = 2;

/// A report of this node, and the state it was based on.
#[derive(Clone, Debug)]
struct Own<K> {
    report: Report<K>,
    members: Vec<NodeName>,
    size: u64,
    /// Keys that others, but not this node, reported in the previous period. It keeps the
    /// newcomer's part of them.
    known: BTreeSet<K>,
}

/// The usage of keys on this host.
struct Used<'a, K, H> {
    /// The usage of windows that run until the end of the period that begins.
    held: &'a H,
    /// The amounts that passed in the period that has ended.
    passed: BTreeMap<K, u64>,
}

/// The budgets of one node.
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
    /// The part of each key that the others leave to this node in this period, plus its own.
    reserved: BTreeMap<K, u64>,
    /// The total of the others for each key of the last division.
    others: BTreeMap<K, u64>,
    /// The long-term budget of each of these keys, for all nodes together.
    rates: BTreeMap<K, Rate>,
    /// Recent visits of sources.
    visits: Visits<K>,
    fallback: Option<Fallback>,
    /// The divisors of limits for keys without their own share, in this period and after it.
    sizes: (u64, u64),
}

impl<K: Key> Budget<K> {
    /// Starts with the saved state. `shares` are those still in the kernel.
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
            reserved: BTreeMap::new(),
            others: BTreeMap::new(),
            rates: BTreeMap::new(),
            visits: Visits::default(),
            fallback: Some(Fallback::NoClock),
            sizes: (size, size),
        }
    }

    /// Returns the members.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// Returns the members, to update them.
    pub fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    /// Returns the current period, once the cluster's clock is known.
    pub fn period(&self) -> Option<u64> {
        self.period
    }

    /// Returns the view and the number of members by which the shares of this period, and those
    /// after it, were divided. The view is `None` if this node reported nothing two periods before.
    pub fn divided_by(&self) -> [(Option<u64>, u64); 2] {
        let view = |back| {
            self.own
                .get(&self.period?.checked_sub(back)?)
                .map(|own| own.report.view)
        };
        [(view(2), self.sizes.0), (view(1), self.sizes.1)]
    }

    /// Returns the keys with their own share.
    pub fn shares(&self) -> impl Iterator<Item = (&K, Share)> {
        self.shares.iter().map(|(key, share)| (key, *share))
    }

    /// Returns the total of all other nodes for a key in this period, if all their reports are
    /// known.
    pub fn others(&self, key: &K) -> Option<u64> {
        self.others
            .get(key)
            .copied()
            .filter(|_| self.fallback.is_none())
    }

    /// Returns why this node has only the share that it may always claim, if that is so.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// Returns the share of every other key of a limit.
    pub fn default_share(&self, limit: &Limit) -> Share {
        Share {
            amount: limit.equal(self.sizes.0),
            until: self.lease_end,
            then: limit.equal(self.sizes.1),
        }
    }

    /// Adds another node's report. `context` is the current hash of the settings that all nodes
    /// must share.
    ///
    /// # Errors
    ///
    /// The node has sent another report of this period, or claims more than allowed.
    pub fn take(
        &mut self,
        node: &NodeName,
        report: Report<K>,
        context: u64,
        limit: impl Fn(&K) -> Option<Limit>,
    ) -> Result<(), Refusal> {
        let Some(period) = self
            .period
            .filter(|period| period.abs_diff(report.period) <= PERIODS)
        else {
            return Ok(());
        };
        // If limits changed in this period, claims may refer to the old ones.
        if report.view == self.members.view() && self.members.context() == context {
            let size = self.members.size();
            let is_above = |entry: &KeyReport<K>| {
                limit(&entry.key).is_none_or(|limit| entry.claim > limit.equal(size))
            };
            if report.entries.iter().any(is_above) {
                let what = "a claim above limit/nodes, or for an unknown limit";
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

    /// Returns whether the cluster's clock has left the current period. If it goes back a little,
    /// this node waits, with what the leases leave.
    pub fn is_over(&self, cluster: Millis) -> bool {
        let shown = cluster / self.period_length;
        self.period
            .is_none_or(|period| shown > period || period - shown > PERIODS)
    }

    /// Enters the period of the cluster's clock. In a new period, shares change, and there may be a
    /// report.
    pub fn advance(
        &mut self,
        cluster: Millis,
        monotonic: Millis,
        context: u64,
        limit: impl Fn(&K) -> Option<Limit>,
        held: impl Fn(&K, Millis) -> WindowUsage,
        counts: Vec<Count<K>>,
    ) -> Option<Report<K>> {
        if !self.is_over(cluster) {
            return None;
        }
        let period = cluster / self.period_length;
        if self.period.is_none_or(|before| before > period) {
            // A period is reported only once, unless the clock went back so far that the other
            // nodes have deleted those reports.
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
        let before = core::mem::take(&mut self.shares);
        let passed = counts.iter().map(|count| (count.key.clone(), count.passed));
        // A daemon that hung enters its period late, but the others divide the next one from its
        // start.
        let rest = (period + 1) * self.period_length - cluster;
        let held = |key: &K| held(key, rest);
        let used = Used {
            held: &held,
            passed: passed.collect(),
        };
        let mut amounts = self.divide(period, &limit, before, &used);
        let report = self.report(
            period.saturating_sub(1),
            &limit,
            &used,
            counts,
            &mut amounts,
        );
        self.lease(period, &limit, &amounts);
        report
    }

    /// Returns why the division of a period has to assume the worst about the other nodes.
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
