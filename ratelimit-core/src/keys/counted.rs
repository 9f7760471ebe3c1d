//! A limit of a space, and how the words of a key are charged.

use std::cell::Cell;

use ratelimit_common::{AtomicWords, Instant, algorithm::Algorithm};

use crate::limit::LimitSpec;

/// A node that needs more than its share may get it after this time: a few periods of the cluster.
const SHARES_CHANGE_IN_NS: u64 = 1_000_000_000;

/// A limit, with the place of its words among those of a key: one word, or a head and the times of
/// a sliding log.
#[derive(Clone, Debug)]
pub struct Counted {
    pub spec: LimitSpec,
    pub algorithm: Algorithm,
    /// The most that this node may use of a limit that nodes share.
    pub share: Option<u64>,
    first: usize,
}

/// The words of a key. Only the owner of the space changes them.
pub type Words = Box<[Cell<u64>]>;

impl Counted {
    /// Places limits one after the other.
    pub fn all(specs: impl IntoIterator<Item = LimitSpec>) -> Vec<Self> {
        let mut next = 0;
        let counted = specs.into_iter().map(|spec| {
            let first = next;
            next += words_of(&spec);
            Self {
                algorithm: spec.compile().algorithm(),
                share: None,
                spec,
                first,
            }
        });
        counted.collect()
    }

    fn words<'w>(&self, words: &'w [Cell<u64>]) -> &'w [Cell<u64>] {
        let end = self.first + words_of(&self.spec);
        words.get(self.first..end).unwrap_or_default()
    }

    fn word(&self, words: &[Cell<u64>]) -> u64 {
        words.get(self.first).map_or(0, Cell::get)
    }

    /// The usage at `now`, rounded up.
    pub fn used(&self, words: &[Cell<u64>], now: Instant) -> u64 {
        if let Algorithm::SlidingLog(log) = &self.algorithm {
            return log.used(&Log(self.words(words)), now);
        }
        self.algorithm.used(self.word(words), now)
    }

    /// The most that fits at `now`.
    pub fn room(&self, words: &[Cell<u64>], now: Instant) -> u64 {
        let left = self.capacity().saturating_sub(self.used(words, now));
        let word = self.word(words);
        // That of a log always answers that there is room.
        let fits = |cost| self.algorithm.step(word, now, cost).is_ok();
        // Usage is rounded, so a little less may fit.
        (0..=left).rev().find(|cost| fits(*cost)).unwrap_or(0)
    }

    /// Charges `cost`, for which there is room.
    pub fn charge(&self, words: &[Cell<u64>], now: Instant, cost: u64) {
        if let Algorithm::SlidingLog(log) = &self.algorithm {
            for _ in 0..cost {
                // `room` has counted them.
                let _ = log.try_charge(&Log(self.words(words)), now);
            }
        } else if let (Some(word), Ok(next)) = (
            words.get(self.first),
            self.algorithm.step(self.word(words), now, cost),
        ) {
            word.set(next);
        }
    }

    /// Nanoseconds until `cost` fits, if nothing else is charged; `None` if it never does. More
    /// than the share of this node may fit once nothing is in use: other nodes leave the rest.
    pub fn room_in_ns(&self, words: &[Cell<u64>], now: Instant, cost: u64) -> Option<u64> {
        if cost > self.algorithm.capacity() {
            return None;
        }
        if let Some(share) = self.share {
            if cost > share {
                return Some(self.clears_in_ns(words, now).max(SHARES_CHANGE_IN_NS));
            }
            let spec = self.spec.with_amount(share);
            let alone = Self {
                algorithm: spec.compile().algorithm(),
                share: None,
                ..self.clone()
            };
            return alone.room_in_ns(words, now, cost);
        }
        let Algorithm::SlidingLog(log) = &self.algorithm else {
            return Some(self.algorithm.room_in_ns(self.word(words), now, cost));
        };
        let used = log.used(&Log(self.words(words)), now);
        let leaving = (used + cost).saturating_sub(self.capacity());
        let Some(last) = leaving
            .checked_sub(1)
            .and_then(|it| usize::try_from(it).ok())
        else {
            return Some(0);
        };
        let is_used = |time: &u64| time.saturating_add(log.window_ns()) > now.as_nanos();
        let times: Vec<u64> = self.times(words).into_iter().filter(is_used).collect();
        let leaves = times.get(last).map(|time| time + log.window_ns());
        Some(leaves.unwrap_or(0).saturating_sub(now.as_nanos()))
    }

    /// Nanoseconds until nothing is in use, if nothing else is charged.
    pub fn clears_in_ns(&self, words: &[Cell<u64>], now: Instant) -> u64 {
        if let Algorithm::SlidingLog(log) = &self.algorithm {
            return log.clears_in_ns(&Log(self.words(words)), now);
        }
        self.algorithm.clears_in_ns(self.word(words), now)
    }

    /// The most that can be in use, by this node.
    pub fn capacity(&self) -> u64 {
        self.share.unwrap_or_else(|| self.algorithm.capacity())
    }

    /// Whether usage of `before` counts for this limit: it has the same algorithm and window.
    pub fn continues(&self, before: &Self) -> bool {
        self.spec.window() == before.spec.window()
            && self.algorithm.meaning() == before.algorithm.meaning()
    }

    /// Makes a limit that [continues](Self::continues) `before` also accept its words.
    pub fn follow(&mut self, before: &Self, now: Instant) {
        let next = self.algorithm.after(&before.algorithm, now);
        self.algorithm = next.reading(&before.algorithm);
    }

    /// Copies usage of the limit that it follows.
    pub fn carry(&self, words: &[Cell<u64>], before: &Self, old: &[Cell<u64>]) {
        let own = self.words(words);
        let Algorithm::SlidingLog(_) = self.algorithm else {
            if let Some(word) = own.first() {
                word.set(before.word(old));
            }
            return;
        };
        let [head, places @ ..] = own else { return };
        let times = before.times(old);
        let newest = &times[times.len().saturating_sub(places.len())..];
        for (place, time) in places.iter().zip(newest) {
            place.set(*time);
        }
        head.set((newest.len() % places.len().max(1)) as u64);
    }

    /// The times of a log, the oldest first.
    fn times(&self, words: &[Cell<u64>]) -> Vec<u64> {
        let times = self.words(words).iter().skip(1).map(Cell::get);
        let mut times: Vec<u64> = times.filter(|time| *time != 0).collect();
        times.sort_unstable();
        times
    }
}

/// The words that a key needs for a limit.
pub fn words_of(spec: &LimitSpec) -> usize {
    match spec.log_times() {
        0 => 1,
        times => 1 + times as usize,
    }
}

/// Returns the words of a key without usage.
pub fn unused(limits: &[Counted]) -> Words {
    let count = limits.iter().map(|limit| words_of(&limit.spec)).sum();
    vec![Cell::new(0); count].into()
}

/// The ring of a sliding log. Its space has one owner at a time, so every exchange succeeds.
struct Log<'w>(&'w [Cell<u64>]);

impl AtomicWords for Log<'_> {
    fn times(&self) -> u32 {
        u32::try_from(self.0.len())
            .unwrap_or(u32::MAX)
            .saturating_sub(1)
    }

    fn load(&self, index: u32) -> u64 {
        self.0.get(index as usize).map_or(0, Cell::get)
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        let word = self.0.get(index as usize).ok_or(0u64)?;
        if word.get() != current {
            return Err(word.get());
        }
        word.set(new);
        Ok(())
    }
}
