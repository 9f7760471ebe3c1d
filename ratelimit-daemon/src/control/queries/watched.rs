//! The lowest remaining capacity of limits that each of many sources has: the sources of a policy,
//! or those within a prefix.
//!
//! No table stores this minimum, so another thread scans all sources (`scanner.rs`).

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use ratelimit_common::{Instant, algorithm::Algorithm, layout::Counter};
use ratelimit_core::{
    limit::LimitSpec,
    policies::{Named, Part, Policies, Role, Sharing, Stateful},
    watched::Watched,
};
use tracing::debug;

use super::{
    levels,
    top::{self, View},
};
use crate::{
    clock,
    control::{
        controller::handle::{Handle, Unanswered},
        feeds::cluster::log_key,
        sources::read_only_ring::ReadOnlyRing,
        state::State,
    },
    datapath::{self, SourceTables, to_the_end},
    traffic_log::{Series, Sums},
};

/// The watched policies and prefixes, and the data for their scan.
pub struct Many {
    groups: Vec<Group>,
    view: View,
}

/// Sources that are watched together.
struct Group {
    watched: Watched,
    /// The policy whose limits are reported as unused while no source has used any.
    policy: String,
}

/// Finds the minimum, and returns it with the duration of the scan. `None` if the tables could not
/// be read.
pub async fn scan(
    controller: &Handle,
    many: Many,
) -> Result<(Option<Scanned>, Duration), Unanswered> {
    let scan = controller.scan(move |scanner| {
        let begun = clock::monotonic();
        let least = many.least(&scanner.tables, clock::now());
        let least = least.inspect_err(|error| {
            let error = error.to_string();
            debug!(error, "cannot read the remaining quotas");
        });
        let policies = many.view.policies;
        let scanned = least.ok().map(|least| Scanned { least, policies });
        (scanned, clock::elapsed(begun))
    });
    scan.await
}

/// Returns the entries of `[history] watch` of that kind. `None` if there are none or no history is
/// kept.
pub fn watched_sources(state: &State) -> datapath::Result<Option<Many>> {
    let config = &state.intent.config;
    let watched = config.watched.iter();
    let groups = watched.filter(|it| config.history.is_some() && levels::is_of_many(state, it));
    let groups: Vec<Group> = groups.filter_map(|it| group(state, it)).collect();
    if groups.is_empty() {
        return Ok(None);
    }
    let view = top::view(state)?;
    Ok(Some(Many { groups, view }))
}

fn group(state: &State, watched: &Watched) -> Option<Group> {
    let policy = match watched {
        Watched::Policy(name) => name,
        Watched::Prefix(prefix) => {
            let source = state.intent.config.source.around(prefix.address());
            levels::policy_of(state, None, source.address())?.0
        }
        Watched::Node => return None,
    };
    Some(Group {
        watched: watched.clone(),
        policy: policy.to_owned(),
    })
}

impl Many {
    /// Returns the minimum remaining capacity of each limit.
    fn least(&self, tables: &SourceTables, now: Instant) -> datapath::Result<Sums> {
        let mut least = Least {
            many: self,
            parts: self.view.policies.parts(),
            sharing: self.view.policies.sharing(),
            left: BTreeMap::new(),
        };
        least.begin();
        if tables.is_compact() {
            least.read_slots(tables, now)?;
        } else {
            tables.for_each_source(|row| {
                for (index, word) in row.record.words.into_iter().enumerate() {
                    least.note(row.source, (row.scope, index), |algorithm| {
                        let has_word = !matches!(algorithm, Algorithm::SlidingLog(_));
                        has_word.then(|| algorithm.used(word, now))
                    });
                }
            })?;
        }
        least.read_logs(tables, now)?;
        Ok(least.sums())
    }
}

/// The result of a scan.
pub struct Scanned {
    /// The lowest remaining capacities.
    pub least: Sums,
    /// The policies during the scan.
    pub policies: Arc<Policies>,
}

/// A limit of a group: the number of the group, the policy, and the position of the limit in it.
type Key<'a> = (usize, &'a str, (u32, usize));

/// The minimum so far.
struct Least<'a> {
    many: &'a Many,
    parts: BTreeMap<u32, Stateful<'a>>,
    sharing: Sharing<'a>,
    left: BTreeMap<Key<'a>, (u64, &'a LimitSpec)>,
}

impl<'a> Least<'a> {
    /// Starts with unused limits, the result if no source has used any.
    fn begin(&mut self) {
        for (number, group) in self.many.groups.iter().enumerate() {
            let named = self.many.view.policies.get(&group.policy);
            for part in named.into_iter().flat_map(Named::parts) {
                let scope = part.policy.scope();
                for (index, limit) in part.limits.iter().enumerate() {
                    let key = (number, group.policy.as_str(), (scope, index));
                    self.left.insert(key, (limit.capacity(), limit));
                }
            }
        }
    }

    /// Returns the limits of a scope, if they are a source's own.
    fn part(&self, scope: u32, source: IpAddr) -> Option<(&'a str, Part<'a>)> {
        let own = self.sharing.at(scope, source);
        let (name, role, part) = own.or_else(|| self.parts.get(&scope).copied())?;
        (role == Role::Sources).then_some((name, part))
    }

    /// Records the usage of a limit by a source, if it is known.
    fn note(
        &mut self,
        source: IpAddr,
        (scope, index): (u32, usize),
        used: impl Fn(&Algorithm) -> Option<u64>,
    ) {
        let Some((name, part)) = self.part(scope, source) else {
            return;
        };
        let Some(spec) = part.limits.get(index) else {
            return;
        };
        let view = &self.many.view;
        let prefix = view.reported_addresses.reported_as(source);
        let is_in = |group: &Group| match &group.watched {
            Watched::Policy(policy) => policy == name,
            Watched::Prefix(wider) => wider.covers(prefix),
            Watched::Node => false,
        };
        let groups = self.many.groups.iter().enumerate();
        for (number, _) in groups.filter(|(_, group)| is_in(group)) {
            let leased = view.leased.get(&log_key(source, scope));
            let policy = leased.unwrap_or(part.policy);
            let Some(limit) = policy.limit(index) else {
                return;
            };
            let Some(used) = used(&limit.algorithm()) else {
                return;
            };
            let left = limit.capacity().saturating_sub(used);
            let least = self.left.entry((number, name, (scope, index)));
            let least = least.or_insert((left, spec));
            least.0 = least.0.min(left);
        }
    }

    fn read_slots(&mut self, tables: &SourceTables, now: Instant) -> datapath::Result<()> {
        for (scope, (name, role, part)) in self.parts.clone() {
            let mut groups = self.many.groups.iter();
            let is_wanted = groups.any(|group| match &group.watched {
                Watched::Policy(policy) => policy == name || self.sharing.has(scope),
                Watched::Prefix(_) | Watched::Node => true,
            });
            if role != Role::Sources || !is_wanted {
                continue;
            }
            for (index, limit) in part.policy.limits().enumerate() {
                tables.for_each_slot(limit.region(), |row| {
                    let source = tables.source_of_tag(row.family, row.tag);
                    self.note(source, (scope, index), |algorithm| {
                        Some(algorithm.used(row.word, now))
                    });
                })?;
            }
        }
        Ok(())
    }

    fn read_logs(&mut self, tables: &SourceTables, now: Instant) -> datapath::Result<()> {
        to_the_end(|place| {
            tables.some_logs(place, |row| {
                let ring = ReadOnlyRing(row.words);
                let index = row.limit as usize;
                self.note(row.source, (row.scope, index), |algorithm| {
                    let Algorithm::SlidingLog(log) = algorithm else {
                        return None;
                    };
                    Some(log.used(&ring, now))
                });
            })
        })
    }

    fn sums(self) -> Sums {
        let mut sums = Sums::new();
        for ((number, ..), (left, limit)) in self.left {
            let count = Counter {
                packets: left,
                bytes: 0,
            };
            if let Some(series) = Series::of_level(&self.many.groups[number].watched, limit) {
                let least = sums.entry(series).or_insert(count);
                least.packets = least.packets.min(left);
            }
        }
        sums
    }
}
