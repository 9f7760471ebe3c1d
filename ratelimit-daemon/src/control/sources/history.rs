//! The usage history of limits: for each limit of a policy, the usage of its windows by sources, by
//! hour.
//!
//! The tables are sampled from time to time, in parts (`scan.rs`), at no cost for packets. A fixed
//! window is counted if a sample finds it in its last tenth. That does not depend on its usage, so
//! the windows are a fair sample, and at most the usage of the last tenth is missing. For sliding
//! windows, sliding logs and token buckets, the usage at that moment counts. Samples of packets
//! would not do: one in 32 packets misses most slow sources.
//!
//! Refused packets are in no window, so no usage exceeds its limit, and full windows are counted
//! separately.

mod scan;

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    sync::Arc,
    time::{Duration, Instant as Moment},
};

use jiff::Timestamp;
use ratelimit_common::{Instant, algorithm::Algorithm};
use ratelimit_core::policies::Policies;
use tracing::warn;

pub use self::scan::Scan;
use self::scan::Windows;
use crate::{
    clock,
    control::persistence::store::{
        Store,
        usage_histogram::{Measured, Seen},
    },
    datapath,
};

/// The most limits whose windows are counted.
const LIMITS_MAX: usize = 256;
/// The age at which records are deleted, in hours.
pub const HOURS_KEPT: i64 = 7 * 24;
/// The interval at which records are stored in the database.
const FLUSH: Duration = Duration::from_mins(1);
/// Samples take at most this part of the time.
const PART: u32 = 500;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// The records of this hour.
#[derive(Debug, Default)]
pub struct History {
    hour: i64,
    seen: BTreeMap<Measured, Seen>,
    flushed: Option<Moment>,
    /// The beginning of the history, if there is no older one.
    began: Option<Timestamp>,
}

/// A sample of usage.
pub struct UsageSample {
    /// The policies during the sample.
    policies: Arc<Policies>,
    found: datapath::Result<Vec<Windows>>,
    took: Duration,
}

impl History {
    /// Returns the records of each limit since an hour, and the beginning of the history.
    pub(crate) fn seen_since(
        &self,
        store: &Store,
        hour: i64,
    ) -> anyhow::Result<(Option<Timestamp>, BTreeMap<Measured, Seen>)> {
        let mut all = BTreeMap::<Measured, Seen>::new();
        let mut first = None::<i64>;
        let kept = store.history(hour)?.into_iter();
        let kept = kept.filter(|(hour, ..)| *hour != self.hour);
        let current = self.seen.iter();
        let current = current.map(|(measured, seen)| (self.hour, measured.clone(), seen.clone()));
        for (hour, measured, seen) in kept.chain(current) {
            first = Some(first.map_or(hour, |first| first.min(hour)));
            all.entry(measured).or_insert_with(Seen::new).add(&seen);
        }
        let first = first.and_then(|hour| Timestamp::from_second(hour * 3600).ok());
        let since = first.map(|first| self.began.map_or(first, |began| began.max(first)));
        Ok((since, all))
    }

    /// Restores the records of this hour after a restart.
    pub fn restore(store: &Store) -> anyhow::Result<Self> {
        let hour = this_hour();
        let mut rows = store.history(hour - HOURS_KEPT)?;
        let began = rows.is_empty().then(clock::wall);
        rows.retain(|(of, ..)| *of == hour);
        let rows = rows.into_iter();
        Ok(Self {
            hour,
            seen: rows.map(|(_, measured, seen)| (measured, seen)).collect(),
            flushed: None,
            began,
        })
    }

    /// Adds a sample, and returns the time until the next one.
    pub fn take_sample(
        &mut self,
        sample: Option<UsageSample>,
        policies: &Arc<Policies>,
        store: &mut Store,
    ) -> Duration {
        let start = clock::monotonic();
        let mut took = Duration::ZERO;
        if let Some(sample) = sample {
            took = sample.took;
            match sample.found {
                // If the policies changed, the words may have another meaning.
                Ok(_) if !Arc::ptr_eq(&sample.policies, policies) => {}
                Ok(found) => found.into_iter().for_each(|windows| self.add(windows)),
                Err(error) => {
                    let error = format!("{:#}", anyhow::Error::from(error));
                    warn!(error, "cannot read the usage of sources");
                }
            }
        }
        let is_due = |flushed: Moment| clock::elapsed(flushed) >= FLUSH;
        if self.flushed.is_none_or(is_due) || self.hour != this_hour() {
            self.keep(store);
        }
        let pause = ((took + clock::elapsed(start)) * PART).clamp(PAUSE_MIN, PAUSE_MAX);
        // A random pause avoids sampling periodic sources always in the same phase.
        let random = RandomState::new().hash_one(()) % 1024;
        pause / 2 + pause * u32::try_from(random).unwrap_or_default() / 1024
    }

    /// Stores the records in the database, and begins a new hour if it is time.
    pub fn keep(&mut self, store: &mut Store) {
        let History { hour, seen, .. } = &*self;
        let answer = store.transaction(|writer| {
            writer.forget_history(this_hour() - HOURS_KEPT)?;
            let mut seen = seen.iter();
            seen.try_for_each(|(measured, seen)| writer.put_history(*hour, measured, seen))
        });
        if let Err(error) = answer {
            let error = format!("{error:#}");
            warn!(error, "cannot store the usage of sources");
        }
        self.flushed = Some(clock::monotonic());
        if self.hour != this_hour() {
            self.hour = this_hour();
            self.seen.clear();
        }
    }

    fn add(&mut self, windows: Windows) {
        let is_known = self.seen.contains_key(&windows.measured);
        if self.seen.len() >= LIMITS_MAX && !is_known {
            return;
        }
        let seen = self.seen.entry(windows.measured).or_insert_with(Seen::new);
        for used in windows.used {
            seen.held.record(used).expect("it grows");
            seen.full += u64::from(used >= windows.capacity);
        }
        seen.sources = seen.sources.max(windows.sources);
    }
}

/// Returns the usage that a sample counts for a word.
fn counted(algorithm: &Algorithm, word: u64, now: Instant) -> Option<u64> {
    let used = algorithm.used(word, now);
    let is_counted = match algorithm {
        Algorithm::FixedWindow(window) => {
            algorithm.counts_for_ns(word, now) <= window.window_ns() / 10
        }
        Algorithm::SlidingWindow(_) | Algorithm::TokenBucket(_) => true,
        // It has no word; its ring is read instead.
        Algorithm::SlidingLog(_) => false,
    };
    (used > 0 && is_counted).then_some(used)
}

/// Returns the number of hours since 1970.
pub(crate) fn this_hour() -> i64 {
    clock::wall().as_second() / 3600
}

#[cfg(test)]
mod tests {
    use ratelimit_common::algorithm::FixedWindow;

    use super::*;

    #[test]
    fn a_fixed_window_is_counted_in_its_last_tenth() {
        let second = Duration::from_secs(1);
        let window = FixedWindow::new(10, second).unwrap();
        let start = Instant::from_nanos(7_000_000_000);
        let word = window.step(0, start, 3).unwrap();
        let algorithm = Algorithm::FixedWindow(window);
        let counted_after = |ms: u64| {
            let now = Instant::from_nanos(start.as_nanos() + ms * 1_000_000);
            counted(&algorithm, word, now)
        };
        assert_eq!(
            [0, 890, 910, 990, 1010].map(counted_after),
            [None, None, Some(3), Some(3), None]
        );
    }
}
