//! Chooses the coarse clock if the error of every limit stays within the promise, otherwise the
//! precise one. A single limit that needs the precise clock decides for all packets: each has one
//! stamp.
//!
//! # The error of a limit
//!
//! The coarse clock shows the time of the last tick. A stamp is never late, and early by less than
//! a tick T; so the time between two stamps is wrong by less than T, either way. A limit is thereby
//! stricter or laxer by at most T of its time:
//!
//! - Fixed window of the length W: it opens and closes at ticks, so it lasts between W - T and W +
//!   T. A source that sends no more than the amount in any W + T loses nothing. The error is T / W.
//! - Sliding window of the length W: the window before weighs as it did up to T ago, and a packet
//!   may still be counted in it. Both are at most the packets of T. The error is T / W.
//! - Token bucket with the rate r and the burst b, which fills in B = b / r. Between two packets
//!   there flow in up to r T tokens more or less than should. Let a bucket of the burst b - r T, by
//!   the true time, admit all of a stream. For any two of its packets, the traffic between them is
//!   at most b - r T + r (t' - t). That is at most b + r (c' - c), with c the stamps. So the coarse
//!   bucket admits all of it too; and it admits nothing that one of b + r T would not. The error is
//!   r T of b, which is T / B. A bucket that holds a single packet has no smaller burst, and there
//!   it is the gap between packets, 1 / r = B, that is wrong by T.
//! - Sliding log: it is promised to be exact, so no error is small enough.
//! - Limits of the node: those of their algorithm.
//!
//! At 500 packets a second with a burst of 1 and a tick of 4 ms the error is 200 %. Two packets may
//! come in a tick and one is admitted, so that 490 packets a second become 250.
//!
//! # The promise
//!
//! With `clock = "auto"` no limit has an error over 1 / [`ERROR_PART`]. With a tick of 4 ms windows
//! of 800 ms and more, and buckets that take as long to fill, are judged by the coarse clock.

use std::time::Duration;

use ratelimit_common::Settings;

use crate::{
    api::{ClockStatus, CoarseError, KernelClock},
    config::ClockWish,
    limit::{Algorithm, LimitSpec},
};

/// The largest error that is promised, as one part in `ERROR_PART`: 0.5 %.
pub const ERROR_PART: u128 = 200;

/// Chooses the clock for `policies`, by name, where the coarse clock ticks every `tick`.
pub fn choose<'a>(
    wish: ClockWish,
    tick: Duration,
    policies: impl IntoIterator<Item = (&'a str, &'a [LimitSpec])>,
) -> ClockStatus {
    let limits = policies
        .into_iter()
        .flat_map(|(policy, limits)| limits.iter().map(move |limit| (policy, limit)));
    let decides = limits.min_by_key(|(_, limit)| (allows_coarse(limit, tick), span_ns(limit)));
    let suits = decides.is_none_or(|(_, limit)| allows_coarse(limit, tick));
    let clock = match wish {
        ClockWish::Auto if suits => KernelClock::Coarse,
        ClockWish::Coarse => KernelClock::Coarse,
        ClockWish::Auto | ClockWish::Precise => KernelClock::Precise,
    };
    ClockStatus {
        clock,
        wish,
        tick_seconds: tick.as_secs_f64(),
        suits,
        decides: decides.map(|(policy, limit)| CoarseError {
            policy: policy.to_owned(),
            limit: limit.clone(),
            error: error(limit, tick),
        }),
    }
}

/// The settings with the clock that was chosen.
pub fn apply(settings: Settings, clock: KernelClock) -> Settings {
    match clock {
        KernelClock::Precise => settings.with_precise_clock(),
        KernelClock::Coarse => settings.with_coarse_clock(),
    }
}

/// Whether a limit stays within its promised error with a coarse clock.
fn allows_coarse(limit: &LimitSpec, tick: Duration) -> bool {
    match limit.algorithm() {
        Algorithm::SlidingLog => false,
        Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::TokenBucket { .. } => {
            tick.as_nanos() * ERROR_PART <= span_ns(limit)
        }
    }
}

/// The share by which a coarse clock makes a limit stricter or laxer, at most.
#[expect(clippy::cast_precision_loss, reason = "a figure to be shown")]
fn error(limit: &LimitSpec, tick: Duration) -> f64 {
    tick.as_nanos() as f64 / span_ns(limit).max(1) as f64
}

/// The time of a limit, which a tick is compared with: its window, or the time in which its bucket
/// fills. Rounded down, which is never the laxer side: a tick is a whole number of nanoseconds.
fn span_ns(limit: &LimitSpec) -> u128 {
    let window_ns = limit.window().as_nanos();
    match limit.algorithm() {
        Algorithm::FixedWindow | Algorithm::SlidingWindow | Algorithm::SlidingLog => window_ns,
        // A window has at most 2^52 ns, and a burst 2^60 units.
        Algorithm::TokenBucket { burst } => {
            window_ns * u128::from(burst) / u128::from(limit.amount())
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use ratelimit_common::{AtomicWords, Instant, algorithm::TokenBucket};

    use super::*;
    use crate::limit::LimitUnit;

    const MS: u64 = 1_000_000;
    const SECOND: u64 = 1000 * MS;
    const TICK: Duration = Duration::from_millis(4);
    const ALL: [Algorithm; 4] = [
        Algorithm::FixedWindow,
        Algorithm::SlidingWindow,
        BUCKET,
        Algorithm::SlidingLog,
    ];
    const BUCKET: Algorithm = Algorithm::TokenBucket { burst: 10 };

    #[test]
    fn a_window_of_200_ticks_is_long_enough_and_a_nanosecond_less_is_not() {
        for algorithm in [Algorithm::FixedWindow, Algorithm::SlidingWindow] {
            for tick_ms in [1, 2, 4, 10] {
                let tick = Duration::from_millis(tick_ms);
                let edge = 200 * tick_ms * MS;
                let clock = |window_ns| chosen(tick, &[limit(1000, window_ns, algorithm)]);
                assert_eq!(clock(edge), KernelClock::Coarse, "{tick:?}");
                assert_eq!(clock(edge - 1), KernelClock::Precise, "{tick:?}");
            }
        }
    }

    #[test]
    fn a_bucket_that_fills_in_200_ticks_is_large_enough_and_one_of_a_packet_less_is_not() {
        let clock = |rate, burst| chosen(TICK, &[bucket(rate, burst)]);
        assert_eq!(clock(500, 400), KernelClock::Coarse);
        assert_eq!(clock(500, 399), KernelClock::Precise);
        assert_eq!(clock(500, 1), KernelClock::Precise);
        // By default a bucket holds what flows in during its window: 1 s.
        assert_eq!(clock(500, 500), KernelClock::Coarse);
        // Such a one fills in 799.999998 ms.
        assert_eq!(clock(600_000_000, 479_999_999), KernelClock::Precise);
        assert_eq!(clock(600_000_000, 480_000_000), KernelClock::Coarse);
        assert_eq!(clock(1, 1), KernelClock::Coarse);
        assert_eq!(clock(2, 1), KernelClock::Precise);
    }

    #[test]
    fn a_log_is_exact_however_long_its_window() {
        let month = limit(5, 31 * 24 * 3600 * SECOND, Algorithm::SlidingLog);
        let tick = Duration::from_nanos(1);
        assert_eq!(chosen(tick, &[month]), KernelClock::Precise);
    }

    #[test]
    fn without_limits_a_tick_does_no_harm() {
        let status = choose(ClockWish::Auto, TICK, []);
        assert_eq!((status.clock, status.decides), (KernelClock::Coarse, None));
    }

    #[test]
    fn the_limit_that_needs_the_precise_clock_decides_and_else_the_one_with_the_largest_error() {
        let long = limit(9, 60 * SECOND, Algorithm::FixedWindow);
        let second = limit(9, SECOND, Algorithm::SlidingWindow);
        let log = limit(9, 60 * SECOND, Algorithm::SlidingLog);
        let decides = |limits: &[LimitSpec]| {
            let policies = [("default", &limits[..1]), ("partner", &limits[1..])];
            choose(ClockWish::Auto, TICK, policies).decides.unwrap()
        };
        let coarse = decides(&[long.clone(), second.clone()]);
        assert_eq!(
            (coarse.policy.as_str(), &coarse.limit),
            ("partner", &second)
        );
        assert!((coarse.error - 0.004).abs() < 1e-12, "{}", coarse.error);
        assert_eq!(decides(&[second, long.clone(), log.clone()]).limit, log);
        let tiny = decides(&[long, bucket(500, 1)]);
        assert!((tiny.error - 2.0).abs() < 1e-12, "{}", tiny.error);
    }

    #[test]
    fn what_the_configuration_names_is_taken_and_whether_it_suits_is_reported() {
        let limits = [bucket(500, 1)];
        for (wish, clock) in [
            (ClockWish::Auto, KernelClock::Precise),
            (ClockWish::Precise, KernelClock::Precise),
            (ClockWish::Coarse, KernelClock::Coarse),
        ] {
            let status = choose(wish, TICK, [("default", &limits[..])]);
            assert_eq!((status.clock, status.suits), (clock, false), "{wish:?}");
        }
    }

    #[test]
    fn with_the_coarse_clock_490_packets_a_second_would_become_250() {
        let bucket = TokenBucket::new(500, Duration::from_secs(1), 1).unwrap();
        let times: Vec<u64> = (0..4900).map(|packet| packet * SECOND / 490).collect();
        assert_eq!(admitted(&bucket, times.iter().copied()), 4900);
        let coarse = times.iter().map(|time| stamp(*time, TICK));
        let coarse = admitted(&bucket, coarse);
        assert!((2490..=2510).contains(&coarse), "{coarse} in 10 s");
    }

    #[test]
    fn no_algorithm_minds_a_step_back_by_a_tick_when_the_clock_becomes_coarse() {
        let start = 1000 * SECOND + 7;
        for algorithm in ALL {
            let limit = limit(10, SECOND, algorithm).compile().algorithm();
            let ring = Words::default();
            let mut word = 0;
            let mut step = |time: u64| {
                if let ratelimit_common::algorithm::Algorithm::SlidingLog(log) = limit {
                    return log.try_charge(&ring, at(time)).is_ok();
                }
                let next = limit.step(word, at(time), 1);
                next.map(|next| word = next).is_ok()
            };
            let times = [[start; 5], [start - 10 * MS; 5], [start + 1; 5]];
            let admitted = times.as_flattened().iter().filter(|time| step(**time));
            assert_eq!(admitted.count(), 10, "{algorithm:?}");
            assert!(step(start + 2 * SECOND), "{algorithm:?}");
        }
    }

    proptest! {
        /// For packets, which cost 1 each, a larger bucket never admits fewer of a stream.
        #[test]
        fn a_bucket_by_the_coarse_clock_is_one_whose_burst_is_wrong_by_a_tick(
            rate in 1u64..2000,
            burst in 1u64..3000,
            tick_ms in 1u64..=10,
            phase in 0..10 * MS,
            gaps in prop::collection::vec(0..20 * MS, 1..2000),
        ) {
            let tick = Duration::from_millis(tick_ms);
            let of = |burst| TokenBucket::new(rate, Duration::from_secs(1), burst).unwrap();
            let times: Vec<u64> = gaps
                .iter()
                .scan(SECOND + phase, |time, gap| {
                    *time += gap;
                    Some(*time)
                })
                .collect();
            let coarse = admitted(&of(burst), times.iter().map(|time| stamp(*time, tick)));
            let in_a_tick = (rate * tick_ms).div_ceil(1000);
            let more = admitted(&of(burst + in_a_tick), times.iter().copied());
            prop_assert!(coarse <= more, "{} > {}", coarse, more);
            if burst > in_a_tick {
                let less = admitted(&of(burst - in_a_tick), times.iter().copied());
                prop_assert!(coarse >= less, "{} < {}", coarse, less);
            }
        }

        #[test]
        fn a_window_by_the_coarse_clock_admits_the_rate_but_for_the_error(
            window_ticks in 200u64..500,
            extra in 0..4 * MS,
            phase in 0..4 * MS,
            is_sliding: bool,
        ) {
            let window = window_ticks * 4 * MS + extra;
            let algorithm = if is_sliding {
                Algorithm::SlidingWindow
            } else {
                Algorithm::FixedWindow
            };
            let amount = 100;
            let limit = limit(amount, window, algorithm);
            prop_assert!(allows_coarse(&limit, TICK));
            let algorithm = limit.compile().algorithm();
            let mut word = 0;
            // Twice the limit, evenly, for 100 windows.
            let gap = window / (2 * amount);
            let passed = (0..100 * 2 * amount).filter(|packet| {
                let time = SECOND + phase + packet * gap;
                let step = algorithm.step(word, at(stamp(time, TICK)), 1);
                step.map(|next| word = next).is_ok()
            });
            let passed = passed.count() as u64;
            // 0.5 %, and the difference of the first and last window.
            let (least, most) = (9950 - 2 * amount, 10050 + 2 * amount);
            prop_assert!((least..=most).contains(&passed), "{}", passed);
        }
    }

    fn chosen(tick: Duration, limits: &[LimitSpec]) -> KernelClock {
        choose(ClockWish::Auto, tick, [("default", limits)]).clock
    }

    fn admitted(bucket: &TokenBucket, times: impl Iterator<Item = u64>) -> usize {
        let mut word = 0;
        times
            .filter(|time| {
                bucket
                    .step(word, at(*time), 1)
                    .map(|next| word = next)
                    .is_ok()
            })
            .count()
    }

    /// The stamp of the coarse clock.
    fn stamp(time: u64, tick: Duration) -> u64 {
        let tick = u64::try_from(tick.as_nanos()).unwrap();
        time / tick * tick
    }

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    fn bucket(rate: u64, burst: u64) -> LimitSpec {
        limit(rate, SECOND, Algorithm::TokenBucket { burst })
    }

    fn limit(amount: u64, window_ns: u64, algorithm: Algorithm) -> LimitSpec {
        let window = Duration::from_nanos(window_ns);
        LimitSpec::new(amount, LimitUnit::Packets, window, algorithm).unwrap()
    }

    /// The words of a ring, for one thread.
    #[derive(Default)]
    struct Words(std::cell::RefCell<std::collections::HashMap<u32, u64>>);

    impl AtomicWords for Words {
        fn load(&self, index: u32) -> u64 {
            self.0.borrow().get(&index).copied().unwrap_or_default()
        }

        fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
            let found = self.load(index);
            if found != current {
                return Err(found);
            }
            self.0.borrow_mut().insert(index, new);
            Ok(())
        }
    }
}
