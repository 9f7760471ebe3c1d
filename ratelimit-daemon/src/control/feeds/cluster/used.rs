//! The usage of a shared limit in the kernel.

use ratelimit_cluster::budget::WindowUsage;
use ratelimit_common::{Instant, Policy, algorithm::Algorithm, source::LogKey};
use ratelimit_core::policies::Role;

use crate::{
    control::sources::read_only_ring::ReadOnlyRing,
    datapath::{self, SourceTables, address_of},
};

/// Returns the usage of a key's limit at `index` from `now` until `then`, if no further packets
/// arrive.
pub fn used(
    tables: &SourceTables,
    (key, index): (&LogKey, usize),
    role: Role,
    (policy, algorithm): (&Policy, &Algorithm),
    (now, then): (Instant, Instant),
) -> datapath::Result<WindowUsage> {
    let scope = key.scope();
    if let Algorithm::SlidingLog(log) = algorithm {
        let index = u32::try_from(index).unwrap_or(u32::MAX);
        let words = tables.log(address_of(key), scope, index)?;
        return Ok(WindowUsage {
            then: log.used(&ReadOnlyRing(words.unwrap_or_default()), then),
            ending: 0,
        });
    }
    let record = match role {
        Role::Node | Role::Interface | Role::Destination(_) => Some(tables.total(policy.slot())?),
        Role::Sources | Role::Established | Role::Prefixes(..) => {
            tables.record(address_of(key), policy, then)?
        }
    };
    let Some(record) = record else {
        return Ok(WindowUsage::default());
    };
    let used = |at| algorithm.used(record.words[index], at);
    // The windows of the other algorithms do not end at once.
    let is_ending = matches!(algorithm, Algorithm::FixedWindow(_)) && used(then) == 0;
    Ok(WindowUsage {
        then: used(then),
        ending: if is_ending { used(now) } else { 0 },
    })
}
