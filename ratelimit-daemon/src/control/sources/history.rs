//! What sources have sent: for each limit of a policy, how much the windows of sources held, by the hour.
//!
//! The tables are sampled from time to time, a part of them at a time (`scan.rs`), and nothing is asked of packets. A fixed
//! window is counted where its last tenth is running. Which windows a sample finds there depends on nothing that they hold, so
//! they are a fair sample of all. What is still to come is at most the last tenth. Of sliding windows, sliding logs and token
//! buckets, what is in use at that moment counts. Samples of packets would not do: one of 32 of them misses most sources that are slow.
//!
//! What a limit refused is in no window, so none holds more than its limit: those that are full are counted.

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

/// Limits whose windows are counted: of more, the first.
const LIMITS_MAX: usize = 256;
/// How long what was seen is kept.
pub const HOURS_KEPT: i64 = 7 * 24;
/// How often it is brought into the database.
const FLUSH: Duration = Duration::from_mins(1);
/// Looks take at most so small a part of the time.
const PART: u32 = 500;
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_mins(5);

/// What was seen in this hour.
#[derive(Debug, Default)]
pub struct History {
    hour: i64,
    seen: BTreeMap<Measured, Seen>,
    flushed: Option<Moment>,
    /// When this began, where nothing was kept before.
    began: Option<Timestamp>,
}

/// What was in use when it was sampled.
pub struct UsageSample {
    /// The policies under which it was found.
    policies: Arc<Policies>,
    found: datapath::Result<Vec<Windows>>,
    took: Duration,
}

impl History {
    /// What was seen of each limit from an hour on, and since when there is something.
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

    /// What was seen in this hour before a restart.
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

    /// Takes in what was found, and answers how long to wait before the next sample.
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
                // Policies that changed meanwhile may have changed what words mean.
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
        // Sources that send in step with the samples would be seen always at the same point.
        let random = RandomState::new().hash_one(()) % 1024;
        pause / 2 + pause * u32::try_from(random).unwrap_or_default() / 1024
    }

    /// Brings what was seen into the database, and begins a new hour.
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

/// What a sample counts of a word.
fn counted(algorithm: &Algorithm, word: u64, now: Instant) -> Option<u64> {
    let used = algorithm.used(word, now);
    let is_counted = match algorithm {
        Algorithm::FixedWindow(window) => {
            algorithm.counts_for_ns(word, now) <= window.window_ns() / 10
        }
        Algorithm::SlidingWindow(_) | Algorithm::TokenBucket(_) => true,
        // It has no word: its ring is looked at.
        Algorithm::SlidingLog(_) => false,
    };
    (used > 0 && is_counted).then_some(used)
}

/// The hour, since 1970.
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
