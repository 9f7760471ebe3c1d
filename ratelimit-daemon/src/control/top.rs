//! `rlctl top`: the sources, and the wider prefixes with limits of their own, that are busy at this moment.

mod compact;

use std::{collections::HashMap, net::IpAddr};

use ratelimit_common::{Instant, Record, Refusals};

use super::{controller::Controller, limit_state::SourceState, policies::Named, views::unreadable};
use crate::{
    api::{Refused, TopSource},
    clock,
    datapath::DatapathError,
    prefix::Prefix,
};

impl Controller {
    /// The busiest sources: those whose limits are fullest, then those that were refused most.
    ///
    /// # Errors
    ///
    /// When the kernel's tables cannot be read.
    pub fn top(&self, count: usize) -> Result<Vec<TopSource>, Refused> {
        let now = clock::now();
        let mut refused: HashMap<IpAddr, Refusals> = HashMap::new();
        let datapath = self.enforcer.datapath();
        datapath
            .for_each_refused(&mut |source, refusals| {
                refused.insert(source, refusals);
            })
            .map_err(unreadable)?;
        let busy = match datapath.table_sets() {
            None => self.busiest_records(count, now, &refused),
            Some(_) => self.busiest_slots(count, now, &refused),
        };
        let mut busy = busy.map_err(unreadable)?;
        keep_busiest(&mut busy, count);
        let told = busy.into_iter().map(|busy| {
            let record = match busy.record {
                Some(record) => record,
                None => datapath
                    .record(busy.address, &busy.named.policy, now)?
                    .unwrap_or_default(),
            };
            let state = SourceState {
                datapath,
                source: busy.address,
                record,
            };
            let limit = state.limit(busy.named, busy.limit, now)?;
            Ok(TopSource {
                source: busy.source,
                policy: busy.policy.to_owned(),
                limit: Some(limit),
                refused_packets: busy.refused_packets,
            })
        });
        told.collect::<Result<_, DatapathError>>()
            .map_err(unreadable)
    }

    /// The busiest of the sources that have a record, and perhaps some others.
    fn busiest_records(
        &self,
        count: usize,
        now: Instant,
        refused: &HashMap<IpAddr, Refusals>,
    ) -> Result<Vec<Busy<'_>>, DatapathError> {
        let by_scope: HashMap<u32, (&str, &Named)> = self
            .policies
            .iter()
            .map(|(name, named)| (named.policy.scope(), (name, named)))
            .collect();
        let datapath = self.enforcer.datapath();
        let mut busy: Vec<Busy<'_>> = Vec::new();
        let mut unread = None;
        datapath.for_each_source(&mut |row| {
            let Some((name, named)) = by_scope.get(&row.scope) else {
                return;
            };
            let state = SourceState {
                datapath,
                source: row.source,
                record: row.record,
            };
            let (fill, limit) = match state.fullest(named, now) {
                Ok(Some(fullest)) => fullest,
                Ok(None) => return,
                Err(error) => {
                    unread = Some(error);
                    return;
                }
            };
            let prefix = named.role.prefix_around(row.source);
            let source = prefix.unwrap_or_else(|| self.told_as(row.source));
            // The refusals of wider prefixes are not remembered.
            let refused = refused.get(&row.source).filter(|_| prefix.is_none());
            busy.push(Busy {
                fill,
                source,
                policy: name,
                named,
                limit,
                address: row.source,
                record: Some(row.record),
                refused_packets: refused.map_or(0, |refusals| refusals.packets),
            });
            if busy.len() >= 2 * count.max(1024) {
                keep_busiest(&mut busy, count);
            }
        })?;
        unread.map_or(Ok(busy), Err)
    }
}

/// A source under limits, while it is not yet known whether it is among the busiest.
struct Busy<'a> {
    fill: f64,
    source: Prefix,
    policy: &'a str,
    named: &'a Named,
    /// The index of the limit with the least room.
    limit: usize,
    /// The address that its state is found by, and the state, where it was read already.
    address: IpAddr,
    record: Option<Record>,
    refused_packets: u64,
}

fn keep_busiest(busy: &mut Vec<Busy<'_>>, count: usize) {
    busy.sort_by(|left, right| {
        right
            .fill
            .total_cmp(&left.fill)
            .then(right.refused_packets.cmp(&left.refused_packets))
    });
    busy.truncate(count);
}
