//! The promises of eviction for any algorithm, with many more sources than slots, and arbitrary
//! times.

use core::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use std::{thread, vec, vec::Vec};

use proptest::prelude::*;

use super::*;
use crate::{
    Unit,
    algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket},
};

const WINDOW_NS: u64 = 1_000_000_000;
const AMOUNT: u64 = 10;

#[test]
fn a_source_has_its_limit_and_no_more() {
    for limit in limits() {
        let set = Shared::default();
        let passed = (0..50)
            .filter(|_| !charge(&set, 7, &limit, START, 1).0.is_refused())
            .count();
        assert_eq!(passed, 10, "{limit:?}");
        assert_eq!(
            check(&set, 7, &limit, START, 1),
            Outcome::refused(DropReason::Limited, 0)
        );
    }
}

#[test]
fn as_many_sources_as_slots_know_nothing_of_each_other() {
    for limit in limits() {
        let set = Shared::default();
        for _ in 0..AMOUNT {
            for tag in 1..=8 {
                assert_eq!(charge(&set, tag, &limit, START, 1).0, Outcome::PASSED);
            }
        }
        for tag in 1..=8 {
            let refused = charge(&set, tag, &limit, START, 1).0;
            assert_eq!(refused, Outcome::refused(DropReason::Limited, 0));
        }
    }
}

#[test]
fn a_slot_is_told_by_the_lower_half_of_its_tag_and_the_first_of_two_counts() {
    let set = Shared::default();
    let (one, both) = (5 << 32 | 1, 9);
    for (slot, tag) in [(2, one), (3, both), (6, both), (7, 8 << 32 | 4)] {
        set.compare_exchange(tag_at(slot), 0, tag).unwrap();
    }
    for (tag, slot) in [(one, 2), (1, 2), (both, 3), (4, 7), (0, 0), (3, SLOTS)] {
        assert_eq!(find(&set, tag), slot, "{tag:x}");
    }
}

#[test]
fn a_newcomer_takes_the_slot_that_is_used_least_with_what_was_used() {
    for limit in limits() {
        let set = Shared::default();
        for tag in 1..=8 {
            (0..tag).for_each(|_| {
                charge(&set, tag, &limit, START, 1);
            });
        }
        let newcomer = charge(&set, 9, &limit, START, 1);
        assert_eq!(newcomer, (Outcome::PASSED, true));
        assert_eq!(find(&set, 1), SLOTS, "{limit:?}");
        let word = set.load(word_at(find(&set, 9)));
        assert_eq!(limit.algorithm().used(word, START), 2, "{limit:?}");
    }
}

#[test]
fn a_newcomer_is_refused_where_nothing_is_left_and_leaves_no_trace() {
    for limit in limits() {
        let set = Shared::default();
        for tag in 1..=8 {
            charge(&set, tag, &limit, START, AMOUNT);
        }
        let before = set.read();
        let expected = Outcome::refused(DropReason::NoState, 0);
        assert_eq!(check(&set, 9, &limit, START, 1), expected);
        assert_eq!(charge(&set, 9, &limit, START, 1).0, expected);
        let too_large = charge(&set, 9, &limit, START, AMOUNT + 1).0;
        assert_eq!(too_large, Outcome::refused(DropReason::Limited, 0));
        assert_eq!(set.read(), before);
    }
}

#[test]
fn a_window_of_another_is_worth_what_is_left_of_its_time() {
    let limit = Limit::new(window(), Unit::Packets);
    let set = Shared::default();
    for tag in 1..=8 {
        charge(&set, tag, &limit, START, 1);
    }
    let later = after(WINDOW_NS * 7 / 10);
    let passed = (0..10)
        .filter(|_| !charge(&set, 9, &limit, later, 1).0.is_refused())
        .count();
    assert!((2..=3).contains(&passed), "{passed}");
}

#[test]
fn two_threads_that_bring_one_source_admit_its_limit_and_a_packet_each_at_most() {
    const PACKETS: u64 = 20_000;
    let window = FixedWindow::new(PACKETS, Duration::from_secs(1)).unwrap();
    let limit = Limit::new(window, Unit::Packets);
    for _ in 0..20 {
        let set = Shared::default();
        let send = || {
            (0..PACKETS)
                .filter(|_| !charge(&set, 9, &limit, START, 1).0.is_refused())
                .count() as u64
        };
        let admitted: u64 = thread::scope(|scope| {
            let senders = [scope.spawn(send), scope.spawn(send)];
            senders.map(|sender| sender.join().unwrap()).iter().sum()
        });
        assert!((PACKETS..=PACKETS + 2).contains(&admitted), "{admitted}");
    }
}

/// With a quarter of the slots in use, as in the formula of the documentation.
#[test]
fn sources_that_keep_to_their_limit_pass_while_forged_ones_use_a_quarter_of_the_slots() {
    const SETS: u32 = 1_000;
    const KNOWN: u64 = 100;
    const FORGED: u64 = 1_900;
    let mix = Mix::new([0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9]);
    for limit in limits() {
        let limit = limit.in_region(Region::new(0, SETS));
        let sets: Vec<Shared> = (0..SETS).map(|_| Shared::default()).collect();
        let try_one = |key: u64, nanos: u64| {
            let tag = mix.tag(key);
            let set = &sets[usize::try_from(limit.region().set_of(tag)).unwrap()];
            !charge(set, tag, &limit, after(nanos), 1).0.is_refused()
        };
        let (mut sent, mut passed, mut forged) = (0u64, 0u64, 1_000_000);
        for step in 0..100_000 {
            let now = step * WINDOW_NS / FORGED;
            forged += 1;
            try_one(forged, now);
            // Each known source sends nine tenths of its limit.
            if step * KNOWN * 9 % FORGED < KNOWN * 9 {
                sent += 1;
                passed += u64::from(try_one(sent % KNOWN, now));
            }
        }
        assert!(
            sent > 40_000 && passed * 1_000 >= sent * 999,
            "{passed} of {sent}: {limit:?}"
        );
    }
}

proptest! {
    /// None of 24 sources, three times as many as slots, gets more than promised, at any time of
    /// any clock.
    #[test]
    fn eviction_gives_no_source_more_than_the_limit(
        limit in prop::sample::select(limits()),
        start in times_around_a_wrap(),
        packets in prop::collection::vec((0u64..48, 0.0f64..1.0), 1..1_500),
        crowd in 0.1f64..30.0,
    ) {
        let set = Shared::default();
        let mut now = start;
        let mut admitted: Vec<Vec<u64>> = vec![vec![]; 24];
        for (source, gap) in packets {
            // Half of them are of a source that ignores its limit.
            let source = source.saturating_sub(24);
            now = now.wrapping_add(share(WINDOW_NS / AMOUNT, gap.powi(4) * 5.0 / crowd));
            let before = set.read();
            let at = Instant::from_nanos(now);
            if !charge(&set, source + 1, &limit, at, 1).0.is_refused() {
                admitted[usize::try_from(source).unwrap()].push(now.wrapping_sub(start));
            }
            let origin = limit.algorithm().debt_origin(at);
            for (before, after) in before.iter().zip(set.read()) {
                let debt = |slot: &Slot| (slot.word != 0).then(|| slot.word.wrapping_sub(origin));
                prop_assert!(debt(before) <= debt(&after), "{before:?} became {after:?}");
            }
        }
        for times in admitted {
            for (index, first) in times.iter().enumerate() {
                for (count, last) in (1..).zip(&times[index..]) {
                    prop_assert!(
                        count <= most_in(&limit, last - first),
                        "{} in {} ns",
                        count,
                        last - first
                    );
                }
            }
        }
    }
}

proptest! {
    /// Each change keeps usage, also that of sources evicted before it: across one change, no
    /// source gets more than the larger of two limits admits.
    #[test]
    fn eviction_and_another_amount_give_no_source_more_than_the_larger_limit(
        which in 0usize..3,
        amounts in (1u64..40, 1u64..40),
        bursts in (1u64..40, 1u64..40),
        start in times_around_a_wrap(),
        packets in prop::collection::vec((0u64..48, 0.0f64..1.0), 1..1_500),
        changes_at in 0usize..1_500,
    ) {
        let length = Duration::from_nanos(WINDOW_NS);
        let of = |amount, burst| -> Algorithm {
            match which {
                0 => FixedWindow::new(amount, length).unwrap().into(),
                1 => SlidingWindow::new(amount, length).unwrap().into(),
                _ => TokenBucket::new(amount, length, burst).unwrap().into(),
            }
        };
        let begun = Instant::from_nanos(start);
        let mut algorithm = of(amounts.0, bursts.0).starting(begun);
        let (amount, burst) = (amounts.0.max(amounts.1), bursts.0.max(bursts.1));
        let larger = Limit::new(of(amount, burst), Unit::Packets);
        let set = Shared::default();
        let mut now = start;
        let mut admitted: Vec<Vec<u64>> = vec![vec![]; 24];
        for (number, (source, gap)) in packets.into_iter().enumerate() {
            let source = source.saturating_sub(24);
            now = now.wrapping_add(share(WINDOW_NS / AMOUNT, gap.powi(4)));
            let at = Instant::from_nanos(now);
            if number == changes_at {
                algorithm = of(amounts.1, bursts.1).after(&algorithm, at);
            }
            let limit = Limit::new(algorithm, Unit::Packets);
            if !charge(&set, source + 1, &limit, at, 1).0.is_refused() {
                admitted[usize::try_from(source).unwrap()].push(now.wrapping_sub(start));
            }
        }
        for times in admitted {
            for (index, first) in times.iter().enumerate() {
                for (count, last) in (1..).zip(&times[index..]) {
                    let most = most_of(&larger, amount, last - first);
                    prop_assert!(count <= most, "{} in {} ns", count, last - first);
                }
            }
        }
    }
}

/// The most that is admitted between any two packets this far apart, including both.
fn most_in(limit: &Limit, span_ns: u64) -> u64 {
    most_of(limit, AMOUNT, span_ns)
}

/// The same bound for a limit of `amount` per window.
fn most_of(limit: &Limit, amount: u64, span_ns: u64) -> u64 {
    match limit.algorithm() {
        // Windows are known with the precision of a tick.
        Algorithm::FixedWindow(window) => {
            let span = span_ns + 2 * window.tick_ns();
            2 * amount + (amount * span).div_ceil(WINDOW_NS)
        }
        Algorithm::SlidingWindow(_) => amount * (span_ns.div_ceil(WINDOW_NS) + 1),
        Algorithm::TokenBucket(bucket) => {
            bucket.burst() + amount * (span_ns + bucket.rounding_ns()) / WINDOW_NS
        }
        Algorithm::SlidingLog(_) => unreachable!("its state is no word"),
    }
}

const START: Instant = Instant::from_nanos(7_000_000_000);

fn after(nanos: u64) -> Instant {
    Instant::from_nanos(START.as_nanos() + nanos)
}

fn times_around_a_wrap() -> impl Strategy<Value = u64> {
    let wraps_at = prop_oneof![
        Just(1u64 << 40),
        Just(1 << 52),
        Just(1 << 56),
        Just(1 << 63)
    ];
    (wraps_at, 0u64..1 << 33).prop_map(|(at, before)| at - before)
}

fn window() -> FixedWindow {
    FixedWindow::new(AMOUNT, Duration::from_nanos(WINDOW_NS)).unwrap()
}

fn limits() -> Vec<Limit> {
    let length = Duration::from_nanos(WINDOW_NS);
    let algorithms: [Algorithm; 3] = [
        window().into(),
        SlidingWindow::new(AMOUNT, length).unwrap().into(),
        TokenBucket::new(AMOUNT, length, AMOUNT).unwrap().into(),
    ];
    algorithms
        .map(|algorithm| Limit::new(algorithm, Unit::Packets))
        .into()
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "times need not be exact"
)]
fn share(whole: u64, share: f64) -> u64 {
    (whole as f64 * share) as u64
}

#[derive(Default)]
struct Shared([AtomicU64; WORDS]);

impl Shared {
    fn read(&self) -> Vec<Slot> {
        let slot = |slot| Slot {
            tag: self.load(tag_at(slot)),
            word: self.load(word_at(slot)),
        };
        (0..SLOTS).map(slot).collect()
    }
}

impl AtomicWords for Shared {
    fn load(&self, index: u32) -> u64 {
        self.0[index as usize].load(Relaxed)
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        let word = &self.0[index as usize];
        word.compare_exchange(current, new, Relaxed, Relaxed)
            .map(drop)
    }
}
