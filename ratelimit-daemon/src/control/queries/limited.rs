//! The further limits of sources that have part in an attack, as far as they hold: the class of one
//! may have gone from the configuration.

use ratelimit_core::{api::Limited, intent::LimitedRow, policies::Named, prefix::Prefix};

use crate::{clock, control::state::State};

/// The further limit of the narrowest prefix around `source` that has one, of those in the policy
/// of the source.
pub fn limited(state: &State, source: Prefix, named: &Named) -> Option<Limited> {
    source.supernets().rev().find_map(|prefix| {
        let row = state.intent.limited().get(&prefix)?;
        has(named, row).then(|| Limited {
            prefix,
            until: clock::to_wall(row.until),
            since: row.since,
            kind: row.kind,
            limit: row.limit.clone(),
        })
    })
}

/// Counts the prefixes with a further limit in force.
pub fn count(state: &State) -> usize {
    let rows = state.intent.limited().iter();
    let hold = rows.filter(|(prefix, row)| {
        let name = state.intent.policy_name(**prefix);
        let named = name.and_then(|name| state.compiled.policies.get(&name));
        named.is_some_and(|named| has(named, row))
    });
    hold.count()
}

/// Whether a policy has a further limit.
fn has(named: &Named, row: &LimitedRow) -> bool {
    let mut further = named.parts().skip(1);
    further.any(|part| part.limits.contains(&row.limit))
}
