//! Finds the busiest sources, and wider prefixes with their own limits.
//!
//! Another thread scans the tables (`scanner.rs`); the controller only supplies the policies.

mod compact;

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use ratelimit_common::{Instant, Policy, Record, source::LogKey};
use ratelimit_core::{
    api::TopSource,
    policies::{DEFAULT, Part, Policies, Role},
    prefix::Prefix,
};

use super::{
    super::{
        check,
        limit_state::SourceState,
        new_sources::{self, ReportedAddresses},
    },
    refused::WhoWasRefused,
};
use crate::{
    clock,
    control::{feeds::cluster::log_key, state::State},
    datapath::{self, SourceTables},
};

/// Adds bans to the busiest sources, and appends banned sources of `with`.
pub(crate) fn with_bans(
    state: &State,
    mut busiest: Vec<TopSource>,
    with: Vec<Prefix>,
) -> Vec<TopSource> {
    let now = clock::now();
    let ban = |source: Prefix| check::ban_of(state, source.address(), now);
    for row in &mut busiest {
        row.ban = ban(row.source);
    }
    let others: Vec<Prefix> = with
        .into_iter()
        .filter(|source| busiest.iter().all(|row| row.source != *source))
        .collect();
    let tables = &state.enforcer.datapath().sources;
    busiest.extend(others.into_iter().filter_map(|source| {
        let ban = ban(source)?;
        let policy = policies_of(state, &[source.address()]);
        let policy = policy.first().copied().flatten();
        let policy = policy.and_then(|index| state.compiled.policies.at(index));
        let refusals = tables.refusals(source.address()).ok().flatten();
        Some(TopSource {
            source,
            policy: policy.map_or(DEFAULT, |(name, _)| name).to_owned(),
            limit: None,
            refused_packets: refusals.map_or(0, |refusals| refusals.packets),
            ban: Some(ban),
            sending: None,
            place: None,
        })
    }));
    busiest
}

/// The part of the intent that a scan needs.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) policies: Arc<Policies>,
    pub(crate) reported_addresses: ReportedAddresses,
    /// The leased policies of this node.
    pub(crate) leased: HashMap<LogKey, Policy>,
}

/// Collects the data for a scan.
pub(crate) fn view(state: &State) -> datapath::Result<View> {
    Ok(View {
        policies: Arc::clone(&state.compiled.policies),
        reported_addresses: new_sources::reported_addresses(state),
        leased: state.enforcer.leased_at(clock::now())?,
    })
}

/// Returns the indices of the sources' policies.
pub(crate) fn policies_of(state: &State, sources: &[IpAddr]) -> Vec<Option<u32>> {
    let default = || {
        state
            .compiled
            .policies
            .get(DEFAULT)
            .map(|named| named.index)
    };
    let index = |source: &IpAddr| {
        let entry = state.compiled.rules.longest_match(*source);
        let own = entry.and_then(|(_, entry)| entry.policy());
        own.or_else(default)
    };
    sources.iter().map(index).collect()
}

/// Returns the `count` busiest sources, busiest first.
pub(crate) fn busiest(
    tables: &SourceTables,
    view: &View,
    refused: &WhoWasRefused,
    count: usize,
) -> datapath::Result<Vec<TopSource>> {
    let now = clock::now();
    let scan = Scan {
        tables,
        view,
        refused,
        now,
    };
    scan.busiest(count)
}

struct Scan<'a> {
    tables: &'a SourceTables,
    view: &'a View,
    refused: &'a WhoWasRefused,
    now: Instant,
}

/// A candidate for the busiest sources.
struct Busy<'a> {
    fill: f64,
    source: Prefix,
    policy: &'a str,
    part: Part<'a>,
    /// The index of the limit with the least room.
    limit: usize,
    /// The address of its state, and the state, if it was read already.
    address: IpAddr,
    record: Option<Record>,
    refused_packets: u64,
}

impl<'a> Scan<'a> {
    /// Returns the `count` busiest sources, busiest first.
    fn busiest(&self, count: usize) -> datapath::Result<Vec<TopSource>> {
        let mut busy = if self.tables.is_compact() {
            self.busiest_slots(count)?
        } else {
            self.busiest_records(count)?
        };
        keep_busiest(&mut busy, count);
        busy.iter().map(|busy| self.reported(busy)).collect()
    }

    fn reported(&self, busy: &Busy<'_>) -> datapath::Result<TopSource> {
        let record = match busy.record {
            Some(record) => record,
            None => self.record(busy.address, busy.part)?,
        };
        let state = self.state(busy.address, busy.part, record);
        let policy = busy.part.policy;
        let of_prefix = if policy.is_of_prefixes() {
            self.tables.shared_refusals(busy.address, policy.scope())?
        } else {
            None
        };
        Ok(TopSource {
            source: busy.source,
            policy: busy.policy.to_owned(),
            limit: Some(state.limit(busy.limit, self.now)?),
            refused_packets: of_prefix.map_or(busy.refused_packets, |it| it.packets),
            ban: None,
            sending: None,
            place: None,
        })
    }

    /// Returns the busiest sources with a record, and possibly some others.
    fn busiest_records(&self, count: usize) -> datapath::Result<Vec<Busy<'a>>> {
        let by_scope = self.view.policies.parts();
        let sharing = self.view.policies.sharing();
        let mut busy: Vec<Busy<'a>> = Vec::new();
        let mut unread = None;
        self.tables.for_each_source(|row| {
            let own = sharing.at(row.scope, row.source);
            let Some(policy) = own.as_ref().or_else(|| by_scope.get(&row.scope)) else {
                return;
            };
            let state = self.state(row.source, policy.2, row.record);
            match state.fullest(self.now) {
                Ok(Some(place)) => busy.push(Busy {
                    record: Some(row.record),
                    ..self.busy(row.source, *policy, place)
                }),
                Ok(None) => return,
                Err(error) => {
                    unread = Some(error);
                    return;
                }
            }
            if busy.len() >= 2 * count.max(1024) {
                keep_busiest(&mut busy, count);
            }
        })?;
        unread.map_or(Ok(busy), Err)
    }

    fn busy(
        &self,
        address: IpAddr,
        (policy, role, part): (&'a str, Role, Part<'a>),
        (fill, limit): (f64, usize),
    ) -> Busy<'a> {
        let prefix = role.prefix_around(address);
        // Refusals of wider prefixes are looked up only for rows that are shown. Refusals by limits
        // of a destination are not counted per source.
        let refused = self.refused.all.get(&address);
        let refused = refused.filter(|_| role == Role::Sources);
        Busy {
            fill,
            source: prefix.unwrap_or_else(|| self.view.reported_addresses.reported_as(address)),
            policy,
            part,
            limit,
            address,
            record: None,
            refused_packets: refused.map_or(0, |refusals| refusals.packets),
        }
    }

    fn record(&self, source: IpAddr, part: Part<'_>) -> datapath::Result<Record> {
        let record = self.tables.record(source, part.policy, self.now)?;
        Ok(record.unwrap_or_default())
    }

    fn state(&self, source: IpAddr, part: Part<'a>, record: Record) -> SourceState<'a> {
        let key = log_key(source, part.policy.scope());
        SourceState {
            tables: self.tables,
            source,
            part,
            record,
            leased: self.view.leased.get(&key),
        }
    }
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
