//! The periods of one node: counts become reports, reports become shares.

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
use super::{Count, Entry, Fallback, Held, Limit, Report, Share};
use crate::key::Key;
use crate::message::Refusal;
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

/// What this host used of keys.
struct Used<'a, K, H> {
    /// Of the windows that are running until the end of the period that begins.
    held: &'a H,
    /// What passed in the period that is over.
    passed: BTreeMap<K, u64>,
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
    /// What of each key the others leave to this node in this period, with what it holds.
    reserved: BTreeMap<K, u64>,
    /// What the others have of the keys that the last division was about.
    others: BTreeMap<K, u64>,
    /// What may pass of each of these keys, on all nodes together and in the long run.
    rates: BTreeMap<K, Rate>,
    /// When this node was busy with keys.
    visits: Visits<K>,
    fallback: Option<Fallback>,
    /// By how many a limit is divided where a key has no share of its own, in this period and after it.
    sizes: (u64, u64),
}

impl<K: Key> Budget<K> {
    /// Begins with what is remembered; `shares` is what the kernel still holds.
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

    /// The members.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// The members, to be changed by what is heard of them.
    pub fn members_mut(&mut self) -> &mut Members {
        &mut self.members
    }

    /// The current period, once the cluster's clock is known.
    pub fn period(&self) -> Option<u64> {
        self.period
    }

    /// The view and the number of members by which the shares of this period were divided, and of what holds after it. It is without a view
    /// where this node reported nothing two periods before.
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
    pub fn others(&self, key: &K) -> Option<u64> {
        self.others
            .get(key)
            .copied()
            .filter(|_| self.fallback.is_none())
    }

    /// Why this node has no more of any limit in this period than it may always claim; nothing where limits are divided.
    pub fn fallback(&self) -> Option<&Fallback> {
        self.fallback.as_ref()
    }

    /// The share of every other key of a limit.
    pub fn default_share(&self, limit: &Limit) -> Share {
        Share {
            amount: limit.equal(self.sizes.0),
            until: self.lease_end,
            then: limit.equal(self.sizes.1),
        }
    }

    /// Takes another node's report. `context` is the hash of what has to be in common now.
    ///
    /// # Errors
    /// It has two reports of a period, or claims more than anybody may.
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
        // Where limits changed in this period, what was claimed of those before is nobody's fault.
        if report.view == self.members.view() && self.members.context() == context {
            let size = self.members.size();
            let is_above = |entry: &Entry<K>| {
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

    /// Whether the cluster's clock shows another period than the current one. One that goes back a little is waited for, with what the
    /// leases leave.
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
        held: impl Fn(&K, Millis) -> Held,
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
        let before = core::mem::take(&mut self.shares);
        let passed = counts.iter().map(|count| (count.key.clone(), count.passed));
        // A daemon that hung comes late into its period, and the others divide the next one from when that begins.
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
