//! The busiest sources of a `compact` table: its slots are read in place, and only those that are
//! reported are turned into sources.

use std::collections::{HashMap, HashSet};

use ratelimit_common::limit::LIMITS_MAX;
use ratelimit_core::policies::{Named, Part, Role};

use super::{Busy, Scan};
use crate::{
    control::queries::limit_state::share,
    datapath::{self, SlotRow},
};

/// A slot, and how full its limit is.
struct Full<'a> {
    fill: f64,
    row: SlotRow,
    policy: (&'a str, Role, Part<'a>),
    limit: usize,
}

impl<'a> Scan<'a> {
    /// The fullest slots, a source each, and the sources that were refused most.
    pub(super) fn busiest_slots(&self, count: usize) -> datapath::Result<Vec<Busy<'a>>> {
        let mut busy = Vec::new();
        let mut seen = HashSet::new();
        for full in self.fullest_slots(count)? {
            let source = self.tables.source_of_tag(full.row.family, full.row.tag);
            if seen.insert((source, full.policy.2.policy.scope())) {
                busy.push(self.busy(source, full.policy, (full.fill, full.limit)));
            }
        }
        let policies = self.view.policies.iter();
        let by_index: HashMap<u32, (&str, &Named)> = policies
            .map(|(name, named)| (named.index, (name, named)))
            .collect();
        for (source, index) in self.refused.most.iter().zip(&self.refused.policies) {
            let Some(policy) = index.and_then(|index| by_index.get(&index)) else {
                continue;
            };
            let (name, named) = *policy;
            for part in named.parts() {
                let state = self.state(*source, part, self.record(*source, part)?);
                if let Some(place) = state.fullest(self.now)?
                    && seen.insert((*source, part.policy.scope()))
                {
                    busy.push(self.busy(*source, (name, named.role, part), place));
                }
            }
        }
        Ok(busy)
    }

    /// The fullest slots, enough to include `count` sources: a source has a slot for each limit of
    /// its policy.
    fn fullest_slots(&self, count: usize) -> datapath::Result<Vec<Full<'a>>> {
        let kept = count.max(1) * LIMITS_MAX;
        let mut fullest: Vec<Full<'a>> = Vec::with_capacity(2 * kept);
        let mut least = 0.0;
        let sharing = self.view.policies.sharing();
        for (scope, of_scope) in self.view.policies.parts() {
            for (index, limit) in of_scope.2.policy.limits().enumerate() {
                self.tables.for_each_slot(limit.region(), |row| {
                    let source = || self.tables.source_of_tag(row.family, row.tag);
                    let own = sharing.has(scope).then(|| sharing.at(scope, source()));
                    let policy = own.flatten().unwrap_or(of_scope);
                    let limit = policy.2.policy.limit(index).unwrap_or(limit);
                    let (algorithm, capacity) = (limit.algorithm(), limit.capacity());
                    let fill = share(algorithm.used(row.word, self.now), capacity);
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
}
