//! The busiest sources of a `compact` table: its slots are read in place, and only those that are told are turned into
//! sources.

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use ratelimit_common::{Instant, Refusals, policy::LIMITS_MAX};

use super::{Busy, Controller};
use crate::{
    control::{
        limit_state::{SourceState, share},
        policies::{DEFAULT, Named},
    },
    datapath::{DatapathError, SlotRow},
};

/// Of the sources that were refused, those that were refused most are looked at, so many for each that is told.
const REFUSED_FOR_EACH: usize = 16;

/// A slot, and how full its limit is.
struct Full<'a> {
    fill: f64,
    row: SlotRow,
    policy: (&'a str, &'a Named),
    limit: usize,
}

impl Controller {
    /// The fullest slots, a source each, and the sources that were refused most.
    pub(super) fn busiest_slots(
        &self,
        count: usize,
        now: Instant,
        refused: &HashMap<IpAddr, Refusals>,
    ) -> Result<Vec<Busy<'_>>, DatapathError> {
        let datapath = self.enforcer.datapath();
        let mut busy = Vec::new();
        let mut seen = HashSet::new();
        for full in self.fullest_slots(count, now)? {
            let source = datapath.source_of_tag(full.row.family, full.row.tag);
            if seen.insert((source, full.policy.0)) {
                let place = (full.fill, full.limit);
                busy.push(self.busy(source, full.policy, place, refused));
            }
        }
        let mut most: Vec<_> = refused.iter().collect();
        most.sort_unstable_by_key(|(_, refusals)| Reverse(refusals.packets));
        for (source, _) in most.into_iter().take(REFUSED_FOR_EACH * count) {
            let Some(policy) = self.policy_of(*source) else {
                continue;
            };
            let state = SourceState {
                datapath,
                source: *source,
                record: datapath
                    .record(*source, &policy.1.policy, now)?
                    .unwrap_or_default(),
            };
            if let Some(place) = state.fullest(policy.1, now)?
                && seen.insert((*source, policy.0))
            {
                busy.push(self.busy(*source, policy, place, refused));
            }
        }
        Ok(busy)
    }

    /// As many of the fullest slots as hold `count` sources for sure: one has a slot for each limit of its policy.
    fn fullest_slots(&self, count: usize, now: Instant) -> Result<Vec<Full<'_>>, DatapathError> {
        let kept = count.max(1) * LIMITS_MAX;
        let mut fullest: Vec<Full<'_>> = Vec::with_capacity(2 * kept);
        let mut least = 0.0;
        for policy in self.policies.iter() {
            for (index, limit) in policy.1.policy.limits().enumerate() {
                let (algorithm, capacity) = (limit.algorithm(), limit.capacity());
                let datapath = self.enforcer.datapath();
                datapath.for_each_slot(limit.region(), &mut |row| {
                    let fill = share(algorithm.used(row.word, now), capacity);
                    if fill <= least {
                        return;
                    }
                    fullest.push(Full {
                        fill,
                        row,
                        policy,
                        limit: index,
                    });
                    if fullest.len() == 2 * kept {
                        let by_fill = |a: &Full<'_>, b: &Full<'_>| b.fill.total_cmp(&a.fill);
                        let (_, last, _) = fullest.select_nth_unstable_by(kept - 1, by_fill);
                        least = last.fill;
                        fullest.truncate(kept);
                    }
                })?;
            }
        }
        fullest.sort_unstable_by(|a, b| b.fill.total_cmp(&a.fill));
        Ok(fullest)
    }

    fn busy<'a>(
        &'a self,
        source: IpAddr,
        (policy, named): (&'a str, &'a Named),
        (fill, limit): (f64, usize),
        refused: &HashMap<IpAddr, Refusals>,
    ) -> Busy<'a> {
        let prefix = named.role.prefix_around(source);
        let refused = refused.get(&source).filter(|_| prefix.is_none());
        Busy {
            fill,
            source: prefix.unwrap_or_else(|| self.told_as(source)),
            policy,
            named,
            limit,
            address: source,
            record: None,
            refused_packets: refused.map_or(0, |refusals| refusals.packets),
        }
    }

    /// The policy that a source is judged by.
    fn policy_of(&self, source: IpAddr) -> Option<(&str, &Named)> {
        let entry = self.rules.longest_match(source);
        let index = entry.and_then(|(_, entry)| entry.policy());
        match index {
            Some(index) => self.policies.at(index),
            None => self.policies.get(DEFAULT).map(|named| (DEFAULT, named)),
        }
    }
}
