//! The usage of the keys of a space.

use std::{borrow::Cow, cell::Cell, hash::RandomState, num::NonZeroUsize, time::Duration};

use lru::LruCache;
use ratelimit_common::{
    Instant, Limit, Unit,
    algorithm::{Algorithm, FixedWindow},
    lease::Demand,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes as _, IntoBytes as _};

use super::{
    RequestLimit, SavedSpace, SpaceConfig,
    counted::{Counted, Words, unused},
    sharing::{KeyHash, KeyShares, Sharing},
};
use crate::{limit::LimitSpec, prefix::Prefix};

/// Limits, and the usage of each key. Forgets the least recently used key when it is full.
///
/// The hash of the map is keyed, because clients choose the keys.
#[derive(Debug)]
pub struct Space {
    limits: Vec<Counted>,
    usage: LruCache<Box<str>, Words, RandomState>,
    refusals: Option<Refusals>,
    sharing: Option<Sharing>,
    counts: Counts,
}

/// How much of an amount is obtained.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The amount, or nothing.
    #[default]
    All,
    /// As much of the amount as fits.
    Some,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Obtained {
    /// The amount that was charged to every limit.
    pub amount: u64,
    /// The amount that still fits afterwards.
    pub remaining: u64,
    /// The time until the whole amount fits, if less was obtained. `None` if it never does, because
    /// a limit is smaller.
    pub retry_after: Option<Duration>,
}

/// The usage of a limit by a key.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Level {
    /// The limit.
    pub limit: RequestLimit,
    /// The most that can be in use.
    pub capacity: u64,
    /// The usage.
    pub used: u64,
    /// The time until nothing is in use, without further requests.
    pub clears_in: Duration,
}

/// A busy key.
#[derive(Clone, Debug, PartialEq)]
pub struct TopKey {
    /// The key.
    pub key: String,
    /// The usage of the limit that is closest to its capacity.
    pub fullest: Level,
}

/// Counters of a space since the daemon started.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counts {
    /// Requests that obtained the full amount.
    pub allowed: u64,
    /// Requests that obtained less.
    pub refused: u64,
    /// Keys that were forgotten because the space was full.
    pub evicted: u64,
    /// Keys with usage.
    pub held: u64,
}

/// Counts the refusals of clients.
#[derive(Debug)]
struct Refusals {
    window: FixedWindow,
    clients: LruCache<Prefix, u64, RandomState>,
}

impl Space {
    /// Creates a space without usage.
    pub fn new(config: &SpaceConfig) -> Self {
        Self {
            limits: Counted::all(config.limits.iter().map(|it| it.0.clone())),
            usage: cache(config.capacity),
            refusals: Refusals::new(config),
            sharing: Sharing::new(config),
            counts: Counts::default(),
        }
    }

    /// Charges `amount` to every limit of a key, or as much of it as `mode` says. An amount of 0
    /// asks what remains.
    pub fn obtain(&mut self, key: &str, amount: u64, mode: Mode, now: Instant) -> Obtained {
        let Self { limits, usage, .. } = self;
        let limits = match &self.sharing {
            Some(sharing) => Cow::Owned(sharing.limits(limits, key, now)),
            None => Cow::Borrowed(&limits[..]),
        };
        let known = usage.get(key);
        let fresh = known.is_none().then(|| unused(&limits));
        let words = known.or(fresh.as_ref()).map_or(&[][..], |words| words);
        let rooms = limits.iter().map(|limit| limit.room(words, now));
        let room = rooms.clone().min().unwrap_or(u64::MAX);
        let obtained = match mode {
            Mode::All if amount > room => 0,
            Mode::All | Mode::Some => amount.min(room),
        };
        if let Some(sharing) = &mut self.sharing {
            let missing = |room: u64| if amount > room { amount - obtained } else { 0 };
            sharing.count(key, obtained, rooms.map(missing), now);
        }
        if obtained > 0 {
            for limit in &*limits {
                limit.charge(words, now, obtained);
            }
        }
        let retry_after = (obtained < amount)
            .then(|| room_in(&limits, words, now, amount))
            .flatten();
        if let Some(fresh) = fresh.filter(|_| obtained > 0) {
            let forgotten = usage.push(key.into(), fresh);
            self.counts.evicted += u64::from(forgotten.is_some());
        }
        if obtained < amount {
            self.counts.refused += 1;
        } else if amount > 0 {
            self.counts.allowed += 1;
        }
        Obtained {
            amount: obtained,
            remaining: room - obtained,
            retry_after,
        }
    }

    /// Counts a refusal of a client, and returns whether it is the one that bans.
    pub fn refuse(&mut self, client: Prefix, now: Instant) -> bool {
        let Some(Refusals { window, clients }) = &mut self.refusals else {
            return false;
        };
        let word = clients.get(&client).copied().unwrap_or(0);
        let next = window.step(word, now, 1).unwrap_or(word);
        let bans = window.used(next, now) >= window.amount();
        // It counts from 0 again, in case the ban is refused or ended.
        if bans {
            clients.pop(&client);
        } else {
            clients.put(client, next);
        }
        bans
    }

    /// Returns the usage of a key, by limit.
    pub fn levels(&self, key: &str, now: Instant) -> Vec<Level> {
        let words = self.usage.peek(key).map_or(&[][..], |words| words);
        let levels = self.limits.iter().map(|it| level(it, words, now));
        levels.collect()
    }

    /// Returns the keys that are closest to a limit.
    pub fn top(&self, count: usize, now: Instant) -> Vec<TopKey> {
        let fullest = self.usage.iter().filter_map(|(key, words)| {
            let share = |limit: &&Counted| limit.used(words, now) * 1000 / limit.capacity();
            let limit = self.limits.iter().max_by_key(share)?;
            let used = limit.used(words, now);
            (used > 0).then_some((share(&limit), key, words, limit))
        });
        let mut fullest: Vec<_> = fullest.collect();
        fullest.sort_by_key(|(share, key, ..)| (std::cmp::Reverse(*share), *key));
        let top = fullest.into_iter().take(count);
        top.map(|(_, key, words, limit)| TopKey {
            key: key.to_string(),
            fullest: level(limit, words, now),
        })
        .collect()
    }

    /// Forgets the usage of a key, and returns whether it had any.
    pub fn reset(&mut self, key: &str) -> bool {
        self.usage.pop(key).is_some()
    }

    /// Sets the shares of this node in the limits of keys; other keys have the default share.
    pub fn set_shares(&mut self, shares: KeyShares) {
        if let Some(sharing) = &mut self.sharing {
            sharing.set_shares(shares);
        }
    }

    /// Returns the demand of each key for shared limits since it was first asked about.
    pub fn demands(&mut self, now: Instant) -> Vec<(KeyHash, Demand)> {
        let windows = self.limits.iter().map(|limit| limit.spec.window());
        let longest = windows.max().unwrap_or_default();
        let sharing = self.sharing.as_mut();
        sharing.map_or_else(Vec::new, |sharing| sharing.demands(longest, now))
    }

    /// Returns the usage of a limit by a key at `now` and `then`, if nothing else is charged.
    pub fn used(&self, hash: &KeyHash, index: usize, [now, then]: [Instant; 2]) -> [u64; 2] {
        let key = self.sharing.as_ref().and_then(|sharing| sharing.key(hash));
        let words = key.and_then(|key| self.usage.peek(key));
        let words = words.map_or(&[][..], |words| words);
        [now, then].map(|at| self.limits.get(index).map_or(0, |it| it.used(words, at)))
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        Counts {
            held: self.usage.len() as u64,
            ..self.counts
        }
    }

    /// Replaces the configuration. Usage of limits with the same algorithm and window is kept, also
    /// if the amount changes.
    pub fn configure(&mut self, config: &SpaceConfig, now: Instant) {
        let mut limits = Counted::all(config.limits.iter().map(|it| it.0.clone()));
        let mut rest: Vec<&Counted> = self.limits.iter().collect();
        let mut take = |is_it: &dyn Fn(&Counted) -> bool| {
            let place = rest.iter().position(|before| is_it(before))?;
            Some(rest.remove(place))
        };
        let mut before: Vec<Option<&Counted>> = limits
            .iter()
            .map(|limit| take(&|before| before.spec == limit.spec))
            .collect();
        for (limit, before) in limits.iter().zip(&mut before) {
            *before = before.or_else(|| take(&|before| limit.continues(before)));
        }
        let pairs = || before.iter().enumerate();
        for (index, before) in pairs() {
            if let Some(before) = before {
                limits[index].follow(before, now);
            }
        }
        for (_, words) in &mut self.usage {
            let next = unused(&limits);
            for (limit, before) in limits.iter().zip(&before) {
                if let Some(before) = before {
                    limit.carry(&next, before, words);
                }
            }
            *words = next;
        }
        let are_same = specs(&limits).eq(specs(&self.limits));
        self.limits = limits;
        self.sharing = match self.sharing.take() {
            Some(before) if are_same && before.nodes() == config.nodes => Some(before),
            Some(_) | None => Sharing::new(config),
        };
        let held = self.usage.len();
        self.usage.resize(room(config.capacity));
        self.counts.evicted += (held - self.usage.len()) as u64;
        self.refusals = match self.refusals.take() {
            Some(before) if Refusals::window(config) == Some(before.window) => Some(before),
            Some(_) | None => Refusals::new(config),
        };
    }

    /// Returns what a restart needs.
    pub fn save(&self) -> SavedSpace {
        let limits = self.limits.iter();
        // The most recently used key comes last, as it was charged last.
        let keys = self.usage.iter().rev().map(|(key, words)| {
            let words = words.iter().map(Cell::get).collect();
            (key.clone(), words)
        });
        SavedSpace {
            limits: limits
                .map(|limit| (limit.spec.clone(), saved_clock(limit.algorithm)))
                .collect(),
            keys: keys.collect(),
        }
    }

    /// Restores usage into a space of the present configuration.
    pub fn restore(saved: SavedSpace, config: &SpaceConfig, now: Instant) -> Self {
        let specs = saved.limits.iter().map(|(spec, _)| spec.clone());
        let mut limits = Counted::all(specs);
        for (limit, (_, clock)) in limits.iter_mut().zip(&saved.limits) {
            limit.algorithm = with_clock(limit.algorithm, clock);
        }
        let count = unused(&limits).len();
        let mut space = Self {
            limits,
            ..Self::new(config)
        };
        let keys = saved.keys.into_iter();
        for (key, words) in keys.filter(|(_, words)| words.len() == count) {
            let words: Vec<Cell<u64>> = words.into_iter().map(Cell::new).collect();
            space.usage.push(key, words.into());
        }
        space.configure(config, now);
        space
    }
}

impl Refusals {
    fn new(config: &SpaceConfig) -> Option<Self> {
        Some(Self {
            window: Self::window(config)?,
            clients: cache(config.capacity),
        })
    }

    fn window(config: &SpaceConfig) -> Option<FixedWindow> {
        let on_refused = config.on_refused?;
        FixedWindow::new(on_refused.after.into(), on_refused.within).ok()
    }
}

fn specs(limits: &[Counted]) -> impl Iterator<Item = &LimitSpec> {
    limits.iter().map(|limit| &limit.spec)
}

fn level(limit: &Counted, words: &[Cell<u64>], now: Instant) -> Level {
    Level {
        limit: RequestLimit(limit.spec.clone()),
        capacity: limit.capacity(),
        used: limit.used(words, now),
        clears_in: Duration::from_nanos(limit.clears_in_ns(words, now)),
    }
}

/// Returns the time until an amount fits into every limit.
fn room_in(limits: &[Counted], words: &[Cell<u64>], now: Instant, amount: u64) -> Option<Duration> {
    let times = limits.iter().map(|it| it.room_in_ns(words, now, amount));
    let longest = times.collect::<Option<Vec<u64>>>()?.into_iter().max();
    longest.map(Duration::from_nanos)
}

/// A cache that allocates only for the keys in it.
pub(super) fn cache<K: std::hash::Hash + Eq, V>(capacity: u32) -> LruCache<K, V, RandomState> {
    let mut cache = LruCache::unbounded_with_hasher(RandomState::new());
    cache.resize(room(capacity));
    cache
}

fn room(capacity: u32) -> NonZeroUsize {
    NonZeroUsize::new(capacity as usize).unwrap_or(NonZeroUsize::MIN)
}

/// Returns the algorithm as bytes: the words of a token bucket are readings of its clock, which
/// starts elsewhere after a change of the rate.
fn saved_clock(algorithm: Algorithm) -> Vec<u8> {
    Limit::new(algorithm, Unit::Packets).as_bytes().to_vec()
}

/// Returns the algorithm with the clock that was saved, unless the bytes are those of another one.
fn with_clock(algorithm: Algorithm, saved: &[u8]) -> Algorithm {
    let saved = Limit::read_from_bytes(saved).map(|limit| limit.algorithm());
    match saved {
        Ok(saved) if saved.meaning() == algorithm.meaning() => saved,
        Ok(_) | Err(_) => algorithm,
    }
}

#[cfg(test)]
mod tests;
