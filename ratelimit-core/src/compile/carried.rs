//! Whether what sources have used is kept when their limits change.

use crate::{
    policies::{DEFAULT, Policies},
    prefix::Prefix,
    rules::Rules,
};

/// What the state of the sources of `prefix` is kept under, or of those without a policy of their own; `None` where nothing
/// limits them.
pub fn scope_of(rules: &Rules, policies: &Policies, prefix: Option<Prefix>) -> Option<u32> {
    let index = prefix.and_then(|prefix| rules.sum(prefix).policy());
    let named = match index {
        Some(index) => policies.at(index).map(|(_, named)| named),
        None => policies.get(DEFAULT),
    };
    let policy = &named?.policy;
    (!policy.is_empty()).then(|| policy.scope())
}

/// Whether what was used under one scope is nothing under the other.
pub fn starts_anew(before: Option<u32>, after: Option<u32>) -> bool {
    before.is_some() && after.is_some() && before != after
}
