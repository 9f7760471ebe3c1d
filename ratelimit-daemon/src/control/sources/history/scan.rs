//! Scans the tables in parts, each short enough that other scans need not wait long.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use ratelimit_common::{algorithm::Algorithm, compact::Region};
use ratelimit_core::{
    ip_family::IpFamily,
    policies::{Policies, Role},
};

use super::{UsageSample, counted};
use crate::{
    clock,
    control::{
        persistence::store::usage_histogram::Measured, sources::read_only_ring::ReadOnlyRing,
    },
    datapath::{self, SETS_AT_ONCE, ScanPosition, SourceTables},
};

/// A sample starts no further reads after this time.
const SAMPLE_TIME: Duration = Duration::from_millis(8);
/// Sources per read: about a millisecond for a large map.
const SOURCES_AT_ONCE: usize = 4096;

/// The position of the scan, and the sources it has counted.
#[derive(Debug, Default)]
pub struct Scan {
    next: Part,
    sources: BTreeMap<Measured, u64>,
}

/// A part of the tables.
#[derive(Debug)]
enum Part {
    /// The sources of a family in `lru`.
    Sources(IpFamily, ScanPosition),
    /// The sets of a limit in `compact`, from this number on.
    Slots(Key, u32),
    Logs(ScanPosition),
}

impl Default for Part {
    fn default() -> Self {
        Self::Sources(IpFamily::V4, ScanPosition::default())
    }
}

/// A limit: the scope of its policy, and its index.
type Key = (u32, usize);

type Usage = HashMap<Key, Vec<u64>>;

struct Limit {
    measured: Measured,
    algorithm: Algorithm,
    region: Region,
    capacity: u64,
}

/// The usage of a limit's windows.
#[derive(Debug)]
pub struct Windows {
    pub measured: Measured,
    pub used: Vec<u64>,
    /// The capacity of a window.
    pub capacity: u64,
    /// The number of sources since the scan began, if this is its last part.
    pub sources: u64,
}

impl Scan {
    /// Samples the windows of the node, and those of as many sources as time permits.
    pub fn sample(&mut self, tables: &dyn SourceTables, policies: Arc<Policies>) -> UsageSample {
        let start = clock::monotonic();
        UsageSample {
            found: self.scan_on(tables, &policies),
            policies,
            took: clock::elapsed(start),
        }
    }

    fn scan_on(
        &mut self,
        tables: &dyn SourceTables,
        policies: &Policies,
    ) -> datapath::Result<Vec<Windows>> {
        let start = clock::monotonic();
        let mut found = count_node(tables, policies)?;
        let limits = measured_limits(policies);
        loop {
            let mut held = Usage::new();
            // If this fails, the next scan starts from the beginning.
            let mut scan = std::mem::take(self);
            let next = read(tables, scan.next, &limits, &mut held)?;
            for (key, used) in held {
                let limit = &limits[&key];
                let sources = scan.sources.entry(limit.measured.clone()).or_default();
                *sources += used.len() as u64;
                found.push(Windows {
                    measured: limit.measured.clone(),
                    used,
                    capacity: limit.capacity,
                    sources: *sources,
                });
            }
            let Some(next) = next else { return Ok(found) };
            scan.next = next;
            *self = scan;
            if clock::elapsed(start) >= SAMPLE_TIME {
                return Ok(found);
            }
        }
    }
}

/// Counts what the CPUs have drawn of the limits of the node and of interfaces: up to 1/128 more
/// than they have used.
fn count_node(tables: &dyn SourceTables, policies: &Policies) -> datapath::Result<Vec<Windows>> {
    let now = clock::now();
    let mut found = Vec::new();
    let of_node = |role| matches!(role, Role::Node | Role::Interface);
    for (name, node) in policies.iter().filter(|it| of_node(it.1.role)) {
        let record = tables.total(node.policy.slot())?;
        for part in node.parts() {
            for (index, limit) in part.limits.iter().enumerate() {
                let algorithm = part.algorithm(index, limit, now);
                if let Some(used) = counted(&algorithm, record.words[index], now) {
                    found.push(Windows {
                        measured: Measured::new(name, limit),
                        used: vec![used],
                        capacity: limit.capacity(),
                        sources: 1,
                    });
                }
            }
        }
    }
    Ok(found)
}

/// Returns the limits of sources and prefixes. If a policy has several limits with the same
/// meaning, the first one is returned.
fn measured_limits(policies: &Policies) -> BTreeMap<Key, Limit> {
    let mut limits = BTreeMap::new();
    for (name, named) in policies.iter() {
        if named.role.is_total() || named.has_state_of_another {
            continue;
        }
        let mut seen: Vec<Measured> = Vec::new();
        for (index, (spec, limit)) in named.limits.iter().zip(named.policy.limits()).enumerate() {
            let measured = Measured::new(name, spec);
            if seen.contains(&measured) {
                continue;
            }
            seen.push(measured.clone());
            let limit = Limit {
                measured,
                algorithm: limit.algorithm(),
                region: limit.region(),
                capacity: spec.capacity(),
            };
            limits.insert((named.policy.scope(), index), limit);
        }
    }
    limits
}

/// Reads a part, and returns the next one, or `None` at the end.
fn read(
    tables: &dyn SourceTables,
    part: Part,
    limits: &BTreeMap<Key, Limit>,
    held: &mut Usage,
) -> datapath::Result<Option<Part>> {
    let logs = Part::Logs(ScanPosition::default());
    Ok(match part {
        Part::Sources(..) if tables.is_compact() => Some(Part::Slots((0, 0), 0)),
        Part::Sources(family, place) => {
            let next = read_sources(tables, (family, &place), limits, held)?;
            match (next.is_front(), family) {
                (false, _) => Some(Part::Sources(family, next)),
                (true, IpFamily::V4) => Some(Part::Sources(IpFamily::V6, next)),
                (true, IpFamily::V6) => Some(logs),
            }
        }
        Part::Slots(from, first) => match limits.range(from..).next() {
            None => Some(logs),
            // The current limit is gone, and its sets with it.
            Some((key, _)) if *key != from && first > 0 => Some(Part::Slots(*key, 0)),
            Some((key, limit)) => {
                let end = first.saturating_add(SETS_AT_ONCE);
                tables.some_slots(limit.region, first..end, &mut |row| {
                    let used = counted(&limit.algorithm, row.word, clock::now());
                    held.entry(*key).or_default().extend(used);
                })?;
                Some(if end < limit.region.sets() {
                    Part::Slots(*key, end)
                } else {
                    Part::Slots((key.0, key.1 + 1), 0)
                })
            }
        },
        Part::Logs(place) => {
            let next = read_logs(tables, &place, limits, held)?;
            (!next.is_front()).then_some(Part::Logs(next))
        }
    })
}

fn read_sources(
    tables: &dyn SourceTables,
    (family, place): (IpFamily, &ScanPosition),
    limits: &BTreeMap<Key, Limit>,
    held: &mut Usage,
) -> datapath::Result<ScanPosition> {
    tables.some_sources(family, place, SOURCES_AT_ONCE, &mut |row| {
        let now = clock::now();
        for (key, limit) in limits.range((row.scope, 0)..=(row.scope, usize::MAX)) {
            if let Some(used) = counted(&limit.algorithm, row.record.words[key.1], now) {
                held.entry(*key).or_default().push(used);
            }
        }
    })
}

fn read_logs(
    tables: &dyn SourceTables,
    place: &ScanPosition,
    limits: &BTreeMap<Key, Limit>,
    held: &mut Usage,
) -> datapath::Result<ScanPosition> {
    tables.some_logs(place, &mut |row| {
        let key = (row.scope, row.limit as usize);
        if let Some(Limit {
            algorithm: Algorithm::SlidingLog(log),
            ..
        }) = limits.get(&key)
        {
            let used = log.used(&ReadOnlyRing(row.words), clock::now());
            held.entry(key)
                .or_default()
                .extend((used > 0).then_some(used));
        }
    })
}
