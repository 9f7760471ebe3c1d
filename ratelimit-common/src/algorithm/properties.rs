//! Properties of every algorithm with one word of state, for any parameters and any time of its
//! clock. The sliding log, whose state is a ring, is compared with its definition in its own tests.

use core::{iter, time::Duration};
use std::vec::Vec;

use proptest::prelude::*;

use super::{Algorithm, FixedWindow, SlidingWindow, TokenBucket};
use crate::Instant;

/// An algorithm, and the numbers in its properties.
#[derive(Clone, Copy, Debug)]
struct Promising {
    algorithm: Algorithm,
    amount: u64,
    window_ns: u64,
}

impl Promising {
    /// The most that is admitted between any two packets this far apart, including both.
    fn most_in(&self, span_ns: u64) -> u128 {
        let (amount, span) = (u128::from(self.amount), u128::from(span_ns));
        let window = u128::from(self.window_ns);
        match self.algorithm {
            Algorithm::FixedWindow(_) => amount * (span / window + 2),
            Algorithm::SlidingWindow(_) => amount * (span.div_ceil(window) + 1),
            Algorithm::TokenBucket(bucket) => {
                let span = span + u128::from(bucket.rounding_ns());
                u128::from(bucket.burst()) + span * amount / window
            }
            Algorithm::SlidingLog(_) => unreachable!("its state is no word"),
        }
    }

    /// Whether each window opened by one of these packets (time, cost) stays within the limit.
    fn windows_hold(&self, admitted: &[(u64, u64)]) -> bool {
        let Algorithm::FixedWindow(window) = self.algorithm else {
            return true;
        };
        let (mut opened, mut used) = (0, 0);
        admitted.iter().all(|(at, cost)| {
            if used == 0 || *at >= opened + window.window_ns() {
                (opened, used) = (at - at % window.tick_ns(), 0);
            }
            used += cost;
            used <= self.amount
        })
    }

    /// An interval at which every packet is admitted.
    fn gap_ns(&self) -> u64 {
        match self.algorithm {
            Algorithm::FixedWindow(window) => {
                (window.window_ns() + window.tick_ns()).div_ceil(self.amount)
            }
            // One packet is already in the window, and one in 512 is lost to rounding.
            Algorithm::SlidingWindow(window) => {
                let kept = self.amount - 2 - self.amount / 512;
                (window.window_ns() + window.window_ns() / 10_000).div_ceil(kept)
            }
            Algorithm::TokenBucket(bucket) => {
                self.window_ns.div_ceil(self.amount) + bucket.rounding_ns()
            }
            Algorithm::SlidingLog(_) => unreachable!("its state is no word"),
        }
    }
}

fn promising() -> impl Strategy<Value = Promising> {
    let amount = prop_oneof![1u64..20, 1u64..2_000];
    let window_ms = prop_oneof![10u64..50, 50u64..5_000];
    let burst = prop_oneof![1u64..10, 1u64..4_000];
    (0..3, amount, window_ms, burst).prop_filter_map(
        "it cannot be had",
        |(which, amount, window_ms, burst)| {
            let window = Duration::from_millis(window_ms);
            let algorithm = match which {
                0 => FixedWindow::new(amount, window).ok()?.into(),
                1 if amount < 4 => return None,
                1 => SlidingWindow::new(amount, window).ok()?.into(),
                _ => TokenBucket::new(amount, window, burst).ok()?.into(),
            };
            Some(Promising {
                algorithm,
                amount,
                window_ns: window_ms * 1_000_000,
            })
        },
    )
}

/// Times at which a counter wraps or is about to.
fn odd_time() -> impl Strategy<Value = u64> {
    let wraps_at = prop_oneof![
        Just(0u64),
        Just(1 << 31),
        Just(1 << 32),
        Just(1 << 52),
        Just(1 << 56),
        Just(1 << 63)
    ];
    let around = prop_oneof![Just(-1i64), Just(0), Just(1), -20_000_000_000i64..0];
    prop_oneof![
        (wraps_at, around).prop_map(|(at, around)| at.saturating_add_signed(around)),
        0u64..1 << 63,
    ]
}

/// Packets as shares of the mean gap at the limit, and of the capacity.
fn packets() -> impl Strategy<Value = Vec<(f64, f64)>> {
    prop::collection::vec((0.0f64..3.0, 0.0f64..1.0), 1..300)
}

proptest! {
    #[test]
    fn never_more_than_the_limit_in_any_window(
        of in promising(), start in odd_time(), packets in packets(),
    ) {
        let (mut word, mut now) = (0, start);
        let mut admitted: Vec<(u64, u64)> = Vec::new();
        for (gap, share) in packets {
            let cost = part(of.algorithm.capacity(), share.powi(4)).max(1);
            now += part(of.window_ns, gap.powi(3) * cost as f64 / of.amount as f64 / 4.0);
            if let Ok(next) = of.algorithm.step(word, Instant::from_nanos(now), cost) {
                word = next;
                admitted.push((now, cost));
            }
        }
        prop_assert!(of.windows_hold(&admitted));
        for (index, (first, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for (at, cost) in admitted.iter().skip(index) {
                sum += u128::from(*cost);
                prop_assert!(sum <= of.most_in(at - first), "{} in {} ns", sum, at - first);
            }
        }
    }

    #[test]
    fn a_source_that_keeps_to_its_limit_is_never_refused(
        of in promising(), start in odd_time(), pauses in prop::collection::vec(0.0f64..1.0, 2_500),
    ) {
        let (mut word, mut now) = (0, start);
        for pause in pauses {
            word = of.algorithm.step(word, Instant::from_nanos(now), 1).expect("within the limit");
            now += of.gap_ns() + part(of.gap_ns(), 4.0 * pause.powi(32));
        }
    }

    #[test]
    fn a_word_of_any_content_admits_no_more_than_the_capacity(
        of in promising(), word: u64, now: u64,
    ) {
        let step = |word: u64| of.algorithm.step(word, Instant::from_nanos(now), 1).ok();
        let most = usize::try_from(of.algorithm.capacity()).unwrap();
        let admitted = iter::successors(step(word), |word| step(*word)).take(most + 1);
        prop_assert!(admitted.count() <= most);
    }

    /// This is why a packet may be refused based on a word that was read earlier.
    #[test]
    fn what_an_older_word_has_no_room_for_a_newer_one_has_none_for_either(
        of in promising(), start in odd_time(), packets in packets(),
    ) {
        let (mut word, mut now, mut older) = (0, start, 0);
        for (gap, share) in packets {
            let cost = part(of.algorithm.capacity(), share.powi(4)).max(1);
            now += part(of.window_ns, gap.powi(3) * cost as f64 / of.amount as f64 / 4.0);
            let step = |word| of.algorithm.step(word, Instant::from_nanos(now), cost);
            if step(older).is_err() {
                prop_assert!(step(word).is_err());
            }
            match step(word) {
                Ok(next) => word = next,
                Err(_) if share < 0.5 => older = word,
                Err(_) => {}
            }
        }
    }

    #[test]
    fn the_order_of_packets_of_one_time_changes_nothing(
        of in promising(), now in odd_time(), costs in prop::collection::vec(1u64..100, 1..30),
        by: usize,
    ) {
        let now = Instant::from_nanos(now);
        let mut in_order = costs.clone();
        in_order.sort_unstable();
        let mut turned = costs.clone();
        turned.rotate_left(by % costs.len());
        let fits = costs.iter().sum::<u64>() <= of.algorithm.capacity();
        let words = [costs, in_order, turned].map(|costs| {
            let charge = |word: Option<u64>, cost: &u64| of.algorithm.step(word?, now, *cost).ok();
            costs.iter().fold(Some(0), charge)
        });
        prop_assert_eq!(words[0].is_some(), fits);
        prop_assert_eq!([words[0]; 3], words);
    }

    #[test]
    fn a_source_that_was_silent_for_long_enough_is_a_new_one(
        of in promising(), start in odd_time(), packets in packets(), idle in 0u64..1 << 50,
        shift in 0u32..50,
    ) {
        let answers = |mut word: u64, mut now: u64| {
            let mut answers = Vec::new();
            for (gap, share) in &packets {
                now += part(of.window_ns, *gap / of.amount as f64);
                let cost = part(of.algorithm.capacity(), share.powi(8)).max(1);
                let answer = of.algorithm.step(word, Instant::from_nanos(now), cost);
                answers.push(answer.is_ok());
                word = answer.unwrap_or(word);
            }
            (answers, word, now)
        };
        let (_, word, now) = answers(0, start);
        let clears_in_ns = of.algorithm.clears_in_ns(word, Instant::from_nanos(now));
        let later = now + clears_in_ns + (idle >> shift);
        prop_assert_eq!(answers(word, later).0, answers(0, later).0);
    }

    /// The clocks of CPUs may differ by up to a window.
    #[test]
    fn times_that_go_backwards_give_no_more_than_the_time_between_the_first_and_the_last(
        of in promising(), start in odd_time(), packets in packets(),
    ) {
        let (mut word, mut now, mut sum) = (0, start.saturating_add(of.window_ns), 0);
        let (mut first, mut last) = (u64::MAX, 0);
        let cost = of.algorithm.capacity().div_ceil(4);
        for (gap, back) in packets {
            now += part(of.window_ns, gap.powi(3) / 100.0);
            let at = now - part(of.window_ns.min(1 << 31), back.powi(2) * 0.9);
            (first, last) = (first.min(at), last.max(at));
            if let Ok(next) = of.algorithm.step(word, Instant::from_nanos(at), cost) {
                word = next;
                sum += u128::from(cost);
            }
            prop_assert!(sum <= of.most_in(last - first), "{} in {} ns", sum, last - first);
        }
    }
}

fn part(whole: u64, share: f64) -> u64 {
    (whole as f64 * share) as u64
}
