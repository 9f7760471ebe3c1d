//! `rlctl top`: the sources that are busy at this moment.

use std::{collections::HashMap, net::IpAddr};

use ratelimit_common::Strikes;

use super::{controller::Controller, limit_state, policies::Named, views::unreadable};
use crate::{
    api::{LimitState, Refused, TopSource},
    clock,
};

impl Controller {
    /// The busiest sources: those whose limits are fullest, then those that were refused most.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn top(&self, count: usize) -> Result<Vec<TopSource>, Refused> {
        let now = clock::now();
        let mut struck: HashMap<IpAddr, Strikes> = HashMap::new();
        let by_scope: HashMap<u32, (&str, &Named)> = self
            .policies
            .iter()
            .map(|(name, named)| (named.policy.scope(), (name, named)))
            .collect();
        let datapath = self.enforcer.datapath();
        datapath
            .for_each_struck(&mut |source, strikes| {
                struck.insert(source, strikes);
            })
            .map_err(unreadable)?;
        let mut busy: Vec<(f64, TopSource)> = Vec::new();
        datapath
            .for_each_source(&mut |row| {
                let Some((name, named)) = by_scope.get(&row.scope) else {
                    return;
                };
                let fullest = limit_state::states(named, &row.record, now)
                    .max_by(|left, right| fill(left).total_cmp(&fill(right)));
                let Some(limit) = fullest.filter(|limit| limit.used > 0) else {
                    return;
                };
                busy.push((
                    fill(&limit),
                    TopSource {
                        source: self.source_of(row.source),
                        policy: (*name).to_owned(),
                        limit: Some(limit),
                        refused_packets: struck
                            .get(&row.source)
                            .map_or(0, |strikes| strikes.packets),
                    },
                ));
                if busy.len() >= 2 * count.max(1024) {
                    keep_busiest(&mut busy, count);
                }
            })
            .map_err(unreadable)?;
        keep_busiest(&mut busy, count);
        Ok(busy.into_iter().map(|(_, source)| source).collect())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a share for sorting")]
fn fill(state: &LimitState) -> f64 {
    state.used as f64 / state.limit.amount() as f64
}

fn keep_busiest(busy: &mut Vec<(f64, TopSource)>, count: usize) {
    busy.sort_by(|(left_fill, left), (right_fill, right)| {
        right_fill
            .total_cmp(left_fill)
            .then(right.refused_packets.cmp(&left.refused_packets))
    });
    busy.truncate(count);
}
