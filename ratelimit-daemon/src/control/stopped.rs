//! Which entries of a list meet what is protected: there a ban stops.

use ratelimit_core::{
    api::{SPARED_TOLD, SparedEntries, SparedEntry},
    prefix::Prefix,
};

use crate::protected::{Protected, Why};

/// Of `entries`, which lie in the order of their prefixes, those that meet what is protected. However many entries there are, for
/// each that is protected a search for each length is all.
pub fn spared<E>(
    protected: &Protected,
    entries: &[E],
    prefix: impl Fn(&E) -> Prefix,
) -> SparedEntries {
    let mut met: Vec<(Prefix, Prefix, &Why)> = Vec::new();
    for (own, mut reasons) in protected.iter() {
        let Some(why) = reasons.next() else { continue };
        let has = |wider: &Prefix| entries.binary_search_by_key(wider, &prefix).is_ok();
        let wider = own.supernets().filter(|prefix| *prefix != own);
        met.extend(wider.filter(has).map(|wider| (wider, own, why)));
        let first = entries.partition_point(|entry| prefix(entry) < own);
        let within = entries[first..].iter().map(&prefix);
        let within = within.take_while(|inner| own.covers(*inner));
        met.extend(within.map(|inner| (inner, own, why)));
    }
    met.sort_by_key(|(prefix, ..)| *prefix);
    // An entry may meet several.
    met.dedup_by_key(|(prefix, ..)| *prefix);
    let told = met.iter().take(SPARED_TOLD);
    let first = told.map(|(prefix, protected, why)| SparedEntry {
        prefix: *prefix,
        protected: *protected,
        why: why.to_string(),
    });
    SparedEntries {
        count: met.len(),
        first: first.collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn entries_around_at_and_in_what_is_protected_meet_it_and_no_others() {
        let all = [
            "10.0.0.0/8",
            "10.0.0.1",
            "10.0.0.2",
            "127.0.0.0/16",
            "127.9.9.9",
            "128.0.0.0/8",
            "2001:db8::/32",
            "2001:db9::/32",
        ];
        let spared = check(&all);
        let told = spared.first.iter().map(|entry| entry.prefix.to_string());
        let expected = [
            "10.0.0.0/8",
            "10.0.0.1",
            "127.0.0.0/16",
            "127.9.9.9",
            "2001:db8::/32",
        ];
        assert_eq!(told.collect::<Vec<_>>(), expected);
        assert_eq!(spared.first[0].protected, "10.0.0.1".parse().unwrap());
        assert_eq!(spared.first[0].why, "the default gateway of eth0");
    }

    #[test]
    fn all_are_counted_and_the_first_are_named() {
        let hosts: Vec<String> = (0..9).map(|host| format!("127.0.0.{host}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let spared = check(&hosts);
        assert_eq!((spared.count, spared.first.len()), (9, SPARED_TOLD));
    }

    /// The answer, which is what a look at each entry says.
    fn check(entries: &[&str]) -> SparedEntries {
        let mut protected = Protected::loopback();
        for own in ["10.0.0.1", "10.0.0.200", "2001:db8::1"] {
            protected.add(own.parse().unwrap(), Why::Gateway("eth0".into()));
        }
        let entries: BTreeSet<Prefix> = entries.iter().map(|text| text.parse().unwrap()).collect();
        let entries: Vec<Prefix> = entries.into_iter().collect();
        let spared = spared(&protected, &entries, |prefix| *prefix);
        let met = entries
            .iter()
            .filter(|entry| protected.met_by(**entry).is_some());
        assert_eq!(spared.count, met.count());
        spared
    }
}
