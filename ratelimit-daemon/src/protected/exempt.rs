//! Finds list entries that cover protected addresses, which a ban then exempts, and entries that
//! cover a network of this host, whose hosts are probably not meant.

use ratelimit_core::{
    api::{EXEMPT_REPORTED, ExemptEntries, ExemptEntry},
    intent::list::List,
    lists::{Action, Entry},
    prefix::Prefix,
};

use super::{Protected, Why};

impl Protected {
    /// Returns the ban entries of a list that exempt protected addresses.
    pub fn exempt_of(&self, list: &List) -> ExemptEntries {
        match list.action {
            Action::Ban => {
                let mut exempt = self.describe_cut(&list.cut);
                exempt.add(self.exempt(list.entries(), |entry| entry.prefix));
                exempt
            }
            Action::Allow | Action::Policy => ExemptEntries::default(),
        }
    }

    /// Returns those of `entries`, sorted by prefix, that cover or are inside protected prefixes.
    /// It needs only one search per protected prefix and length, however many entries there are.
    pub fn exempt<E>(&self, entries: &[E], prefix: impl Fn(&E) -> Prefix) -> ExemptEntries {
        let mut met: Vec<(Prefix, Prefix, &Why)> = Vec::new();
        for (own, mut reasons) in self.iter() {
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
        let reported = met.iter().take(EXEMPT_REPORTED);
        let first = reported.map(|(prefix, protected, why)| ExemptEntry {
            prefix: *prefix,
            protected: *protected,
            why: why.to_string(),
        });
        ExemptEntries {
            count: met.len(),
            first: first.collect(),
        }
    }

    /// Removes connected networks from the entries that cover them, and returns these entries and
    /// the number of remaining parts. Entries inside such a network stay: they were named
    /// deliberately.
    pub fn cut(&self, entries: &mut Vec<Entry>) -> (Vec<Prefix>, usize) {
        let covers = |entry: &Entry| self.networks_in(entry.prefix).next().is_some();
        let covering: Vec<Entry> = entries.extract_if(.., |entry| covers(entry)).collect();
        let others = entries.len();
        for entry in &covering {
            let networks: Vec<Prefix> = self.networks_in(entry.prefix).collect();
            let left = entry.prefix.without(&networks).into_iter();
            entries.extend(left.map(|prefix| Entry { prefix, ..*entry }));
        }
        let mut cut: Vec<Prefix> = covering.iter().map(|entry| entry.prefix).collect();
        cut.sort_unstable();
        cut.dedup();
        (cut, entries.len() - others)
    }

    /// The prefixes that cover connected networks, each with the first of these and the hosts
    /// there.
    pub fn describe_cut(&self, cut: &[Prefix]) -> ExemptEntries {
        let covering = cut.iter().filter_map(|prefix| {
            let network = self.networks_in(*prefix).next()?;
            Some((*prefix, network))
        });
        let covering: Vec<_> = covering.collect();
        let first = covering.iter().take(EXEMPT_REPORTED);
        let first = first.map(|(prefix, network)| ExemptEntry {
            prefix: *prefix,
            protected: *network,
            why: self.describe_network(*network),
        });
        ExemptEntries {
            count: covering.len(),
            first: first.collect(),
        }
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
        let exempt = check(&all);
        let reported = exempt.first.iter().map(|entry| entry.prefix.to_string());
        let expected = [
            "10.0.0.0/8",
            "10.0.0.1",
            "127.0.0.0/16",
            "127.9.9.9",
            "2001:db8::/32",
        ];
        assert_eq!(reported.collect::<Vec<_>>(), expected);
        assert_eq!(exempt.first[0].protected, "10.0.0.1".parse().unwrap());
        assert_eq!(exempt.first[0].why, "the default gateway of eth0");
    }

    #[test]
    fn all_are_counted_and_the_first_are_named() {
        let hosts: Vec<String> = (0..9).map(|host| format!("127.0.0.{host}")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let exempt = check(&hosts);
        assert_eq!((exempt.count, exempt.first.len()), (9, EXEMPT_REPORTED));
    }

    /// The answer, which is what a look at each entry says.
    fn check(entries: &[&str]) -> ExemptEntries {
        let mut protected = Protected::loopback();
        for own in ["10.0.0.1", "10.0.0.200", "2001:db8::1"] {
            protected.add(own.parse().unwrap(), Why::Gateway("eth0".into()));
        }
        let entries: BTreeSet<Prefix> = entries.iter().map(|text| text.parse().unwrap()).collect();
        let entries: Vec<Prefix> = entries.into_iter().collect();
        let exempt = protected.exempt(&entries, |prefix| *prefix);
        let met = entries
            .iter()
            .filter(|entry| protected.met_by(**entry).is_some());
        assert_eq!(exempt.count, met.count());
        exempt
    }
}
