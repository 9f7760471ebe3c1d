//! Rates between two answers, by verdict and source.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use jiff::{Timestamp, Zoned};
use ratelimit_core::{
    api::{Ban, LimitState, StatsRow, TopSource},
    detection::Sending,
    limit::{Algorithm, LimitUnit},
    prefix::Prefix,
};
use serde::Serialize;

use crate::{
    commands::stats::{self, VerdictRate, per_second},
    phrase,
};

/// The answers of the daemon at one moment.
pub struct Sample {
    /// The time of the request.
    pub at: Instant,
    pub counters: Vec<StatsRow>,
    /// Its busiest sources.
    pub sources: Vec<TopSource>,
    /// The idle sources that are still reported, with the number of looks without usage.
    pub idle: BTreeMap<Prefix, u32>,
}

/// The number of looks for which an idle source stays: its window may just have ended.
const IDLE_LOOKS: u32 = 5;

impl Sample {
    /// Keeps sources of the look before that use nothing at this moment.
    pub fn keep_idle(&mut self, before: &Self) {
        for old in &before.sources {
            let looks = before.idle.get(&old.source).map_or(1, |looks| looks + 1);
            let is_here = self.sources.iter().any(|it| it.source == old.source);
            if is_here || looks > IDLE_LOOKS || old.ban.is_some() {
                continue;
            }
            let mut source = old.clone();
            if let Some(limit) = &mut source.limit {
                limit.used = 0;
            }
            self.idle.insert(source.source, looks);
            self.sources.push(source);
        }
    }
}

/// The content of the screen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Picture {
    /// The time of the second sample.
    pub at: Timestamp,
    /// Rates by verdict, highest first.
    pub verdicts: Vec<VerdictRate>,
    /// Sources, in the order of the daemon.
    pub sources: Vec<Row>,
}

/// A source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The source or the prefix.
    pub source: Prefix,
    pub policy: String,
    /// The fullest limit.
    pub limit: Option<LimitState>,
    /// Admitted rate in the unit of that limit, if known.
    pub admitted_per_second: Option<f64>,
    /// Packets a second that limits refused.
    pub refused_packets_per_second: f64,
    /// Packets that limits refused, as far as they are remembered.
    pub refused_packets: u64,
    /// The ban that holds for it.
    pub ban: Option<Ban>,
    /// The kind of most of its packets.
    pub sending: Option<Sending>,
}

impl Picture {
    /// Computes the rates between two samples.
    pub fn between(before: &Sample, after: &Sample, at: Timestamp) -> Self {
        let seconds = after.at.saturating_duration_since(before.at);
        let seconds = seconds.max(Duration::from_millis(1)).as_secs_f64();
        let verdicts = stats::verdicts(&before.counters, &after.counters, seconds);
        let rows = after.sources.iter().map(|source| {
            let old = before
                .sources
                .iter()
                .find(|old| old.source == source.source);
            row(old, source, seconds)
        });
        Self {
            at,
            verdicts,
            sources: rows.collect(),
        }
    }
}

impl Row {
    /// The used part of its fullest limit, in percent, rounded down: only a full one is 100.
    pub fn percent(&self) -> u64 {
        self.limit.as_ref().map_or(0, percent)
    }

    /// The admitted rate with its unit.
    pub fn admitted(&self) -> String {
        let of_bytes = |state: &LimitState| state.limit.unit() == LimitUnit::Bytes;
        let unit = phrase::when(self.limit.as_ref().is_some_and(of_bytes), "B");
        let rate = self.admitted_per_second;
        rate.map_or_else(String::new, |rate| format!("{}{unit}", phrase::rate(rate)))
    }

    /// Returns the remaining time of its ban.
    pub fn banned_for(&self, now: &Zoned) -> String {
        let ban = self.ban.as_ref().map(|ban| match ban.until {
            Some(until) => phrase::span(now.timestamp(), until),
            None => "forever".to_owned(),
        });
        ban.unwrap_or_default()
    }
}

/// The used part of a limit, in percent, rounded down: only a full one is 100.
pub fn percent(state: &LimitState) -> u64 {
    let percent = u128::from(state.used) * 100 / u128::from(state.limit.capacity().max(1));
    u64::try_from(percent).unwrap_or(u64::MAX)
}

fn row(before: Option<&TopSource>, source: &TopSource, seconds: f64) -> Row {
    // A source that was not shown may have been refused long ago.
    let refused = before.map_or(0, |before| {
        source
            .refused_packets
            .saturating_sub(before.refused_packets)
    });
    Row {
        source: source.source,
        policy: source.policy.clone(),
        admitted_per_second: source.limit.as_ref().and_then(|limit| {
            let before = before.and_then(|before| before.limit.as_ref());
            admitted(before, limit, seconds)
        }),
        limit: source.limit.clone(),
        refused_packets_per_second: per_second(refused, seconds),
        refused_packets: source.refused_packets,
        ban: source.ban.clone(),
        sending: source.sending.clone(),
    }
}

/// The admitted rate: since the window opened, over the previous window, or for a token bucket
/// since the last refresh.
#[expect(clippy::cast_precision_loss, reason = "a rate for people")]
fn admitted(before: Option<&LimitState>, state: &LimitState, seconds: f64) -> Option<f64> {
    let limit = &state.limit;
    let (used, window) = (state.used as f64, limit.window().as_secs_f64());
    let rate = limit.amount() as f64 / window;
    match limit.algorithm() {
        Algorithm::FixedWindow => {
            // A window that opened just now admits a burst, and after it nothing.
            let open = (window - state.clears_in_seconds).max(f64::MIN_POSITIVE);
            Some((used / open).min(rate))
        }
        Algorithm::SlidingWindow | Algorithm::SlidingLog => Some(used / window),
        Algorithm::TokenBucket { .. } => {
            let before = before.filter(|before| before.limit == *limit)?;
            let admitted = (used - before.used as f64) / seconds + rate;
            (state.used > 0).then_some(admitted.max(0.0))
        }
    }
}

#[cfg(test)]
mod tests {
    use ratelimit_core::limit::LimitSpec;

    use super::*;
    use crate::clock;

    #[test]
    fn rates_are_differences_over_the_time_between() {
        let start = clock::monotonic();
        let before = sample(start, 100, 10);
        let after = sample(start + Duration::from_secs(2), 300, 50);
        let picture = Picture::between(&before, &after, Timestamp::UNIX_EPOCH);
        let verdict = &picture.verdicts[0];
        assert_eq!(
            (verdict.packets_per_second, verdict.bytes_per_second),
            (100.0, 6000.0)
        );
        let row = &picture.sources[0];
        assert_eq!(
            (row.refused_packets_per_second, row.refused_packets),
            (20.0, 50)
        );
        assert_eq!((row.admitted_per_second, row.percent()), (Some(40.0), 20));
    }

    #[test]
    fn a_source_whose_window_has_ended_stays_for_some_looks() {
        let start = clock::monotonic();
        let mut last = sample(start, 0, 0);
        let mut looks = 0;
        while !last.sources.is_empty() {
            let mut next = Sample {
                sources: Vec::new(),
                ..sample(start, 0, 0)
            };
            next.keep_idle(&last);
            let used = next.sources.iter().filter_map(|it| it.limit.as_ref());
            assert!(used.clone().all(|limit| limit.used == 0));
            looks += u32::from(used.count() == 1);
            last = next;
        }
        assert_eq!(looks, IDLE_LOOKS);
    }

    #[test]
    fn what_a_limit_admits_is_told_by_its_algorithm() {
        let bucket = Algorithm::TokenBucket { burst: 100 };
        check(Algorithm::FixedWindow, None, Some(40.0));
        check_used(Algorithm::FixedWindow, 90, None, Some(100.0));
        check(Algorithm::SlidingWindow, None, Some(20.0));
        check(bucket, None, None);
        check(bucket, Some(30), Some(95.0));
    }

    /// Checks the rate of a limit of 100 per second with 20 used, half a second into its window and
    /// two seconds after `before`.
    fn check(algorithm: Algorithm, before: Option<u64>, expected: Option<f64>) {
        check_used(algorithm, 20, before, expected);
    }

    /// The same with another usage.
    fn check_used(algorithm: Algorithm, used: u64, before: Option<u64>, expected: Option<f64>) {
        let before = before.map(|used| state(algorithm, used));
        let rate = admitted(before.as_ref(), &state(algorithm, used), 2.0);
        assert_eq!(rate, expected, "{algorithm:?}");
    }

    fn state(algorithm: Algorithm, used: u64) -> LimitState {
        let second = Duration::from_secs(1);
        LimitState {
            limit: LimitSpec::new(100, LimitUnit::Packets, second, algorithm).unwrap(),
            used,
            room_in_seconds: 0.0,
            clears_in_seconds: 0.5,
            share: None,
        }
    }

    fn sample(at: Instant, packets: u64, refused_packets: u64) -> Sample {
        let counter = StatsRow {
            interface: "eth0".to_owned(),
            family: "ipv4".to_owned(),
            action: "drop".to_owned(),
            reason: "limited".to_owned(),
            packets,
            bytes: 60 * packets,
        };
        let source = TopSource {
            source: "203.0.113.7".parse().unwrap(),
            policy: "default".to_owned(),
            limit: Some(state(Algorithm::FixedWindow, 20)),
            refused_packets,
            ban: None,
            sending: None,
            place: None,
        };
        Sample {
            at,
            counters: vec![counter],
            sources: vec![source],
            idle: BTreeMap::new(),
        }
    }
}
