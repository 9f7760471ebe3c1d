//! The choice of bans that are routes.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_common::Instant;

use super::Upstream;
use crate::prefix::Prefix;

/// A ban that may become a route.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    /// The banned prefix.
    pub prefix: Prefix,
    /// When the ban was made.
    pub since: Timestamp,
    /// When the ban expires.
    pub until: Instant,
}

/// The routes.
#[derive(Debug, Default)]
pub struct Routes {
    routes: BTreeMap<Prefix, Route>,
    /// Bans without a route because there are `routes_max` already.
    left_out: usize,
}

#[derive(Clone, Copy, Debug)]
struct Route {
    announced: Instant,
    /// Start and end of its ban.
    since: Timestamp,
    until: Instant,
}

impl Route {
    fn is_young(&self, for_min: Duration, now: Instant) -> bool {
        let age = now.as_nanos().saturating_sub(self.announced.as_nanos());
        Duration::from_nanos(age) < for_min
    }
}

impl Routes {
    /// Chooses routes among `bans` in force. If they are too many, young routes stay and the most
    /// recent bans replace others. A young route also outlasts a ban that expired, but not one that
    /// was removed or that `may` no longer accepts.
    pub fn update(
        &mut self,
        settings: &Upstream,
        bans: impl Iterator<Item = Candidate>,
        may: impl Fn(Prefix) -> bool,
        now: Instant,
    ) {
        let mut chosen: BTreeMap<Prefix, Route> = BTreeMap::new();
        for Candidate {
            prefix,
            since,
            until,
        } in bans
        {
            let announced = self.routes.get(&prefix).map_or(now, |it| it.announced);
            let route = Route {
                announced,
                since,
                until,
            };
            match chosen.entry(prefix) {
                Entry::Vacant(entry) if may(prefix) => _ = entry.insert(route),
                Entry::Vacant(_) => {}
                Entry::Occupied(mut entry) => {
                    let other = entry.get_mut();
                    other.since = other.since.max(since);
                    other.until = other.until.max(until);
                }
            }
        }
        for (prefix, route) in &self.routes {
            let is_expired = route.until <= now && route.is_young(settings.for_min, now);
            if is_expired && may(*prefix) {
                chosen.entry(*prefix).or_insert(*route);
            }
        }
        self.left_out = chosen.len().saturating_sub(settings.routes_max);
        if self.left_out > 0 {
            let is_kept = |prefix: &Prefix, route: &Route| {
                self.routes.contains_key(prefix) && route.is_young(settings.for_min, now)
            };
            let ranked = chosen.iter();
            let ranked =
                ranked.map(|(prefix, route)| (is_kept(prefix, route), route.since, *prefix));
            let mut ranked: Vec<_> = ranked.collect();
            ranked.select_nth_unstable(self.left_out - 1);
            for (_, _, prefix) in &ranked[..self.left_out] {
                chosen.remove(prefix);
            }
        }
        self.routes = chosen;
    }

    /// Whether the choice stays the same until the bans change.
    pub fn is_settled(&self, for_min: Duration, now: Instant) -> bool {
        let mut routes = self.routes.values();
        !routes.any(|route| route.until <= now || route.is_young(for_min, now))
    }

    /// The prefixes of the routes.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.routes.keys().copied()
    }

    /// Returns the number of bans without a route because there are `routes_max` already.
    pub fn left_out(&self) -> usize {
        self.left_out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FOREVER: u64 = u64::MAX;

    #[test]
    fn the_most_recent_bans_have_routes_and_a_young_route_keeps_its_place() {
        let settings = Upstream {
            routes_max: 2,
            ..Upstream::default()
        };
        let mut routes = Routes::default();
        let bans = [(1, FOREVER), (2, FOREVER), (3, FOREVER)];
        update(&mut routes, &settings, &bans, 0);
        assert_eq!((named(&routes), routes.left_out()), (vec![2, 3], 1));

        let bans = [(1, FOREVER), (2, FOREVER), (3, FOREVER), (4, FOREVER)];
        update(&mut routes, &settings, &bans, 59);
        assert_eq!((named(&routes), routes.left_out()), (vec![2, 3], 2));
        update(&mut routes, &settings, &bans, 60);
        assert_eq!((named(&routes), routes.left_out()), (vec![3, 4], 2));
        update(&mut routes, &settings, &[], 61);
        assert_eq!((named(&routes), routes.left_out()), (vec![], 0));
    }

    #[test]
    fn a_route_outlasts_a_short_ban_but_not_one_that_was_removed() {
        let mut routes = Routes::default();
        let settings = Upstream::default();
        update(&mut routes, &settings, &[(1, 10), (2, 40)], 0);
        assert!(!routes.is_settled(settings.for_min, seconds(1)));
        update(&mut routes, &settings, &[], 20);
        assert_eq!(named(&routes), [1]);
        update(&mut routes, &settings, &[], 60);
        assert!(named(&routes).is_empty());
    }

    #[test]
    fn a_prefix_that_is_allowed_loses_its_route_at_once() {
        let mut routes = Routes::default();
        let settings = Upstream::default();
        let ban = || [candidate((1, 10))].into_iter();
        routes.update(&settings, ban(), |_| true, seconds(0));
        assert_eq!(named(&routes), [1]);
        routes.update(&settings, ban(), |_| false, seconds(1));
        assert!(named(&routes).is_empty());
        routes.update(&settings, ban(), |_| true, seconds(2));
        routes.update(&settings, [].into_iter(), |_| false, seconds(20));
        assert!(named(&routes).is_empty());
    }

    fn update(routes: &mut Routes, settings: &Upstream, bans: &[(u8, u64)], now: u64) {
        let bans = bans.iter().map(|ban| candidate(*ban));
        routes.update(settings, bans, |_| true, seconds(now));
    }

    /// A ban of 192.0.2.N that was made as the Nth.
    fn candidate((number, until): (u8, u64)) -> Candidate {
        Candidate {
            prefix: format!("192.0.2.{number}").parse().unwrap(),
            since: Timestamp::from_second(number.into()).unwrap(),
            until: seconds(until),
        }
    }

    fn named(routes: &Routes) -> Vec<u8> {
        let last = |prefix: Prefix| *prefix.to_string().as_bytes().last().unwrap() - b'0';
        routes.prefixes().map(last).collect()
    }

    fn seconds(seconds: u64) -> Instant {
        Instant::from_nanos(seconds.saturating_mul(1_000_000_000))
    }
}
