//! Entries of lists that cover a network which this host is connected to: the hosts there are most likely not meant.

use ratelimit_core::{
    api::{EXEMPT_REPORTED, ExemptEntries, ExemptEntry},
    lists::Entry,
    prefix::Prefix,
};

use crate::protected::Protected;

/// Leaves connected networks out of the entries that cover them, and answers what these entries were. What lies in such a network
/// stays: whoever names a part of it means it.
pub fn cut(protected: &Protected, entries: &mut Vec<Entry>) -> Vec<Prefix> {
    let covers = |entry: &Entry| protected.networks_in(entry.prefix).next().is_some();
    let covering: Vec<Entry> = entries.extract_if(.., |entry| covers(entry)).collect();
    for entry in &covering {
        let networks: Vec<Prefix> = protected.networks_in(entry.prefix).collect();
        let left = entry.prefix.without(&networks).into_iter();
        entries.extend(left.map(|prefix| Entry { prefix, ..*entry }));
    }
    let mut cut: Vec<Prefix> = covering.iter().map(|entry| entry.prefix).collect();
    cut.sort_unstable();
    cut.dedup();
    cut
}

/// The prefixes that cover connected networks, each with the first of these and the hosts there.
pub fn describe(protected: &Protected, cut: &[Prefix]) -> ExemptEntries {
    let covering = cut.iter().filter_map(|prefix| {
        let network = protected.networks_in(*prefix).next()?;
        Some((*prefix, network))
    });
    let covering: Vec<_> = covering.collect();
    let first = covering.iter().take(EXEMPT_REPORTED);
    let first = first.map(|(prefix, network)| ExemptEntry {
        prefix: *prefix,
        protected: *network,
        why: protected.describe_network(*network),
    });
    ExemptEntries {
        count: covering.len(),
        first: first.collect(),
    }
}
