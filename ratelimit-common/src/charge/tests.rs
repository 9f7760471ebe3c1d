//! Charging, as one CPU does it and two at once.

use core::{
    cell::Cell,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};
use std::{ops::RangeInclusive, thread, vec::Vec};

use proptest::{collection::vec, prelude::*};

use super::*;
use crate::{
    Instant, Limit, Settings, Unit,
    absent::Absent,
    algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket},
    class::ClassSet,
    compare_and_swap::ATTEMPTS,
};

#[test]
fn a_packet_refused_by_one_limit_is_charged_to_none() {
    let policy = policy(&[(10, Unit::Packets), (100, Unit::Bytes)]);
    let words = Shared::default();
    assert_eq!(charge(&policy, &&words, &packet(60)), Outcome::PASSED);
    assert_eq!(
        charge(&policy, &&words, &packet(60)),
        Outcome::refused(DropReason::Limited, 1)
    );
    assert_eq!(used(&policy, &&words), [1, 60]);
    assert_eq!(charge(&policy, &&words, &packet(40)), Outcome::PASSED);
    assert_eq!(used(&policy, &&words), [2, 100]);
}

#[test]
fn two_threads_at_once_admit_exactly_the_limit() {
    let policy = policy(&[(50_000, Unit::Packets)]);
    let words = Shared::default();
    let send = || {
        (0..50_000)
            .filter(|_| !charge(&policy, &&words, &packet(60)).is_refused())
            .count()
    };
    let admitted: usize = thread::scope(|scope| {
        let senders: Vec<_> = (0..2).map(|_| scope.spawn(send)).collect();
        senders
            .into_iter()
            .map(|sender| sender.join().unwrap())
            .sum()
    });
    assert_eq!(admitted, 50_000);
}

#[test]
fn a_word_that_changes_at_every_try_refuses_the_packet() {
    let policy = policy(&[(1_000, Unit::Packets)]);
    let words = Restless(Cell::new(0));
    assert_eq!(
        charge(&policy, &&words, &packet(60)),
        Outcome::refused(DropReason::Contended, 0)
    );
    assert_eq!(words.0.get(), ATTEMPTS as u64);
}

#[test]
fn a_refusal_survives_as_a_number() {
    for reason in DropReason::ALL {
        for limit in 0..8 {
            let outcome = Outcome::refused(reason, 0).at(usize::from(limit));
            assert_eq!(Outcome::from_bits(outcome.to_bits()), outcome);
            assert_eq!(outcome.refusal(), Some(Refusal { reason, limit }));
            let by = outcome.by(DropReason::NodeLimited).refusal().unwrap();
            let expected = match reason {
                DropReason::Limited => DropReason::NodeLimited,
                _ => reason,
            };
            assert_eq!((by.reason, by.limit), (expected, limit));
            let observed = outcome.observed_if(true);
            assert_eq!(observed.refusal(), outcome.refusal());
            assert!(outcome.is_enforced() && !observed.is_enforced());
        }
    }
    assert_eq!(Outcome::PASSED.refusal(), None);
    assert_eq!(Outcome::UNCOUNTED.refusal(), None);
    assert_eq!(Outcome::PASSED.observed_if(true), Outcome::PASSED);
    assert_eq!(Outcome::PASSED.by(DropReason::NodeLimited), Outcome::PASSED);
}

const NOW: Instant = Instant::from_nanos(5_000_000_000);

const fn packet(bytes: u32) -> Arrival {
    Arrival {
        at: NOW,
        bytes,
        classes: ClassSet::NONE,
        settings: Settings::new(0, false),
    }
}

fn policy(limits: &[(u64, Unit)]) -> Policy {
    let window = |amount| FixedWindow::new(amount, Duration::from_secs(1)).unwrap();
    let limits: Vec<Limit> = limits
        .iter()
        .map(|&(amount, unit)| Limit::new(window(amount), unit))
        .collect();
    Policy::new(&limits, 1, false).unwrap()
}

fn used(policy: &Policy, words: &impl Words) -> Vec<u64> {
    let used = |(index, limit): (usize, &Limit)| limit.algorithm().used(words.load(index), NOW);
    policy.limits().enumerate().map(used).collect()
}

#[derive(Default)]
struct Shared([AtomicU64; LIMITS_MAX]);

impl Words for &Shared {
    type Ring = Absent;

    fn load(&self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        self.0[index]
            .compare_exchange(current, new, Relaxed, Relaxed)
            .map(|_| ())
    }
}

/// Another CPU always comes first.
struct Restless(Cell<u64>);

impl Words for &Restless {
    type Ring = Absent;

    fn load(&self, _: usize) -> u64 {
        0
    }

    fn compare_exchange(&self, _: usize, _: u64, _: u64) -> Result<(), u64> {
        self.0.set(self.0.get() + 1);
        Err(self.0.get())
    }
}

/// A policy of limits that are words, and packets for it.
#[derive(Clone, Debug)]
struct Traffic {
    policy: Policy,
    packets: Vec<Arrival>,
}

fn traffic(limits: RangeInclusive<usize>) -> impl Strategy<Value = Traffic> {
    let policy = vec(limit(), limits).prop_map(|limits| Policy::new(&limits, 1, false).unwrap());
    let gap_ns = prop_oneof![4 => 0..1_000_000u64, 1 => 0..2_000_000_000u64];
    let packet = (gap_ns, 60..1500u32, 1..8u32);
    (policy, vec(packet, 1..200)).prop_map(|(policy, packets)| {
        let mut now_ns = NOW.as_nanos();
        let packets = packets.into_iter().map(|(gap_ns, bytes, classes)| {
            now_ns += gap_ns;
            Arrival {
                at: Instant::from_nanos(now_ns),
                bytes,
                classes: ClassSet::from_bits(classes),
                settings: Settings::default(),
            }
        });
        let packets = packets.collect();
        Traffic { policy, packets }
    })
}

fn limit() -> impl Strategy<Value = Limit> {
    let classes = (1..8u32).prop_map(ClassSet::from_bits);
    (0..3u8, 1..40u64, any::<bool>(), classes).prop_map(|(kind, amount, of_bytes, classes)| {
        let (amount, unit) = if of_bytes {
            (amount * 1000, Unit::Bytes)
        } else {
            (amount, Unit::Packets)
        };
        let second = Duration::from_secs(1);
        let algorithm: Algorithm = match kind {
            0 => FixedWindow::new(amount, second).unwrap().into(),
            1 => SlidingWindow::new(amount, second).unwrap().into(),
            _ => TokenBucket::new(amount, second, amount).unwrap().into(),
        };
        Limit::new(algorithm, unit).for_classes(classes)
    })
}

proptest! {
    #[test]
    fn kept_steps_charge_as_checking_and_charging_does(traffic in traffic(1..=LIMITS_MAX)) {
        let (one, other) = (Shared::default(), Shared::default());
        let mut steps = [Step::default(); LIMITS_MAX];
        for packet in &traffic.packets {
            prop_assert_eq!(
                charge_words(&traffic.policy, &&other, &mut steps, packet),
                charge(&traffic.policy, &&one, packet)
            );
            prop_assert_eq!(other.loaded(), one.loaded());
        }
    }

    #[test]
    fn two_limits_are_charged_as_several_are(traffic in traffic(2..=2)) {
        let (one, other) = (Shared::default(), Shared::default());
        for packet in &traffic.packets {
            let counted = traffic.policy.limits().filter(|limit| limit.cost(packet).is_some());
            let outcome = charge_two(&traffic.policy, known(&other), packet);
            prop_assert_eq!(outcome.is_some(), counted.count() == 2);
            if let Some(outcome) = outcome {
                prop_assert_eq!(outcome, charge(&traffic.policy, &&one, packet));
            }
            prop_assert_eq!(other.loaded(), one.loaded());
        }
    }
}

#[test]
fn a_word_that_another_cpu_changed_since_the_check_is_charged_as_it_is_now() {
    let limits = policy(&[
        (1_000, Unit::Packets),
        (1_000, Unit::Packets),
        (1_000, Unit::Packets),
    ]);
    for overtaken in 0..3 {
        let words = Overtaken::at(overtaken);
        let mut steps = [Step::default(); LIMITS_MAX];
        let outcome = charge_words(&limits, &&words, &mut steps, &packet(60));
        assert_eq!(outcome, Outcome::PASSED);
        let mut expected = [1; 3];
        expected[overtaken] = 2;
        assert_eq!(used(&limits, &&words.words), expected);
    }
}

#[test]
fn of_two_limits_the_first_that_another_cpu_changed_is_left_and_the_second_charged_again() {
    let limits = policy(&[(1_000, Unit::Packets), (1_000, Unit::Packets)]);
    let words = Overtaken::at(0);
    assert_eq!(charge_two(&limits, known(&words), &packet(60)), None);
    assert_eq!(used(&limits, &&words.words), [1, 0]);
    let words = Overtaken::at(1);
    assert_eq!(
        charge_two(&limits, known(&words), &packet(60)),
        Some(Outcome::PASSED)
    );
    assert_eq!(used(&limits, &&words.words), [1, 2]);
}

#[test]
fn a_limit_that_another_cpu_filled_since_the_check_refuses() {
    let limits = policy(&[(1_000, Unit::Packets), (1, Unit::Packets)]);
    let limited = Outcome::refused(DropReason::Limited, 1);
    let words = Overtaken::at(1);
    assert_eq!(
        charge_two(&limits, known(&words), &packet(60)),
        Some(limited)
    );
    let words = Overtaken::at(1);
    let mut steps = [Step::default(); LIMITS_MAX];
    assert_eq!(
        charge_words(&limits, &&words, &mut steps, &packet(60)),
        limited
    );
}

impl Shared {
    fn loaded(&self) -> Vec<u64> {
        self.0.iter().map(|word| word.load(Relaxed)).collect()
    }
}

fn known<W: Words + Copy>(words: W) -> impl Fn(usize, &Limit) -> Option<At<W>> {
    move |index, _| Some(At { words, index })
}

struct At<W> {
    words: W,
    index: usize,
}

impl<W: Words> Words for At<W> {
    type Ring = Absent;

    fn load(&self, _: usize) -> u64 {
        self.words.load(self.index)
    }

    fn compare_exchange(&self, _: usize, current: u64, new: u64) -> Result<(), u64> {
        self.words.compare_exchange(self.index, current, new)
    }
}

/// Words to one of which another CPU charges a packet, just before it is first exchanged.
struct Overtaken {
    words: Shared,
    index: Cell<Option<usize>>,
}

impl Overtaken {
    fn at(index: usize) -> Self {
        Self {
            words: Shared::default(),
            index: Cell::new(Some(index)),
        }
    }
}

impl Words for &Overtaken {
    type Ring = Absent;

    fn load(&self, index: usize) -> u64 {
        (&self.words).load(index)
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        if self.index.get() == Some(index) {
            self.index.set(None);
            // The other CPU charges the same packet first.
            self.words.0[index].store(new, Relaxed);
        }
        (&self.words).compare_exchange(index, current, new)
    }
}
