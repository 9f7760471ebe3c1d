//! Ban history of sources, and the order in which it is forgotten.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ratelimit_common::{Instant, PolicyBan};

use super::renewed::later;
use crate::{ban::BanSpec, prefix::Prefix};

/// The ban history of a source, which makes its next ban longer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Offence {
    /// The number of bans.
    pub bans: u32,
    /// The time at which the offence is forgotten, on the clock of the kernel.
    pub forget: Instant,
}

impl Offence {
    /// Returns the end of a new ban by a policy, and the updated history. Without `spec`, if the
    /// policy no longer exists, the ban lasts as long as the kernel set it.
    pub fn next(before: Option<Self>, ban: &PolicyBan, spec: Option<BanSpec>) -> (Instant, Self) {
        let since = Instant::from_nanos(ban.at_ns);
        let before = before.filter(|offence| since < offence.forget);
        let before = before.map_or(0, |offence| offence.bans);
        let made = Duration::from_nanos(ban.until_ns.saturating_sub(ban.at_ns));
        let length = spec.map_or(made, |spec| spec.length(before));
        let until = later(since, length);
        let quiet = spec.map_or(made, |spec| spec.forgotten_after());
        let offence = Self {
            bans: before.saturating_add(1),
            forget: later(until, quiet),
        };
        (until, offence)
    }
}

/// Offences, by source and by the time at which they are forgotten.
#[derive(Clone, Debug, Default)]
pub struct Offences {
    by_source: BTreeMap<Prefix, Offence>,
    by_end: BTreeSet<(Instant, Prefix)>,
}

impl Offences {
    /// The offence of a source.
    pub fn get(&self, source: Prefix) -> Option<Offence> {
        self.by_source.get(&source).copied()
    }

    /// Replaces the offence of a source, and returns the previous one.
    pub fn put(&mut self, source: Prefix, offence: Option<Offence>) -> Option<Offence> {
        let before = match offence {
            Some(offence) => self.by_source.insert(source, offence),
            None => self.by_source.remove(&source),
        };
        if let Some(before) = before {
            self.by_end.remove(&(before.forget, source));
        }
        if let Some(offence) = offence {
            self.by_end.insert((offence.forget, source));
        }
        before
    }

    /// Has them forgotten at other points on the kernel's clock.
    pub fn move_ends(&mut self, moved: impl Fn(Instant) -> Instant) {
        for offence in self.by_source.values_mut() {
            offence.forget = moved(offence.forget);
        }
        let by_source = self.by_source.iter();
        self.by_end = by_source
            .map(|(source, offence)| (offence.forget, *source))
            .collect();
    }

    /// Returns the sources whose offences have expired at `now`, in the order of their ends. Others
    /// are not examined.
    pub fn over(&self, now: Instant) -> impl Iterator<Item = Prefix> + '_ {
        let over = self.by_end.iter().take_while(move |(end, _)| *end <= now);
        over.map(|(_, source)| *source)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offences_are_over_in_the_order_of_their_ends() {
        let mut offences = Offences::default();
        for (source, end) in [("10.0.0.1", 30), ("10.0.0.2", 10), ("10.0.0.3", 20)] {
            assert_eq!(put(&mut offences, source, Some(end)), None);
        }
        check(&offences, 9, &[]);
        check(&offences, 20, &["10.0.0.2", "10.0.0.3"]);
        check(&offences, 30, &["10.0.0.2", "10.0.0.3", "10.0.0.1"]);
    }

    #[test]
    fn a_source_that_offends_again_is_remembered_until_the_later_end_alone() {
        let mut offences = Offences::default();
        put(&mut offences, "10.0.0.1", Some(10));
        assert_eq!(put(&mut offences, "10.0.0.1", Some(50)), Some(10));
        check(&offences, 49, &[]);
        check(&offences, 50, &["10.0.0.1"]);
        assert_eq!(put(&mut offences, "10.0.0.1", None), Some(50));
        check(&offences, 60, &[]);
        assert_eq!(offences.get(prefix("10.0.0.1")), None);
    }

    fn put(offences: &mut Offences, source: &str, end: Option<u64>) -> Option<u64> {
        let offence = end.map(|end| Offence {
            bans: 1,
            forget: Instant::from_nanos(end),
        });
        let before = offences.put(prefix(source), offence);
        before.map(|before| before.forget.as_nanos())
    }

    fn check(offences: &Offences, now: u64, expected: &[&str]) {
        let over: Vec<Prefix> = offences.over(Instant::from_nanos(now)).collect();
        let expected: Vec<Prefix> = expected.iter().map(|source| prefix(source)).collect();
        assert_eq!(over, expected, "at {now}");
    }

    fn prefix(text: &str) -> Prefix {
        text.parse().unwrap()
    }
}
