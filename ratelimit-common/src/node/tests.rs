//! The limits of a node, on several CPUs, around the ends of windows.

use core::{cell::Cell, time::Duration};
use std::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::{
    Limit, Settings, Unit,
    absent::Absent,
    algorithm::{Algorithm, FixedWindow, SlidingWindow, TokenBucket},
    class::ClassSet,
};

const SECOND: u64 = 1_000_000_000;

/// If a share lasted a tick longer than its window, it would add to the amount of the next one.
#[test]
fn a_share_ends_with_the_window_that_it_was_drawn_from() {
    const AMOUNT: u64 = 134_000_000;
    for early in [1, 100, 16_000] {
        let node = Machine::new(window(AMOUNT), 2);
        let start = 77 * SECOND + 12_345;
        assert!(node.admits(0, 1, start));
        let ends = start + node.ends_in_ns(start);
        // The first CPU draws a share just before the end, and the other opens the next window.
        assert!(node.admits(0, AMOUNT >> 9, ends - early));
        let next: u64 = [1, 0, 1, 0]
            .into_iter()
            .map(|cpu| node.admitted(cpu, AMOUNT >> 10, 3_000, ends))
            .sum();
        assert!(next <= AMOUNT, "{next}");
        assert!(next >= AMOUNT - AMOUNT / SHARES_PART, "{next}");
    }
}

proptest! {
    #[test]
    fn no_window_admits_more_than_the_limit(
        amount in prop_oneof![1u64..300, 1u64..134_000_000], cpus in 1usize..6, start: u32,
        steps in prop::collection::vec((0usize..6, 0.0f64..1.0, 0u32..100_000), 1..300),
    ) {
        let node = Machine::new(window(amount), cpus);
        let FixedTimes { window_ns, tick_ns } = times(amount);
        let mut now = u64::from(start);
        let (mut opened, mut sum) = (None, 0);
        for (cpu, share, gap) in steps {
            // Most steps lie around the end of a window.
            now += match gap {
                0..90_000 => u64::from(gap),
                _ => opened.map_or(
                    1,
                    |opened: u64| (opened + window_ns).saturating_sub(now).saturating_sub(150_000),
                ),
            };
            if opened.is_none_or(|opened| now >= opened + window_ns) {
                (opened, sum) = (Some(now - now % tick_ns), 0);
            }
            let cost = part(amount, share.powi(4)).max(1);
            let admitted = node.admits(cpu % cpus, cost, now);
            sum += if admitted { cost } else { 0 };
            prop_assert!(sum <= amount, "{} of {}", sum, amount);
        }
    }

    /// For sliding windows too, a share drawn in one window is not spent in the next.
    #[test]
    fn no_sliding_window_admits_more_than_the_limit(
        amount in prop_oneof![1u64..300, 1u64..134_000_000], cpus in 1usize..6, start: u32,
        steps in prop::collection::vec((0usize..6, 0.0f64..1.0, 0u32..100_000), 1..300),
    ) {
        let algorithm = SlidingWindow::new(amount, Duration::from_secs(1)).unwrap();
        let node = Machine::new(algorithm.into(), cpus);
        let mut now = u64::from(start);
        let (mut ends, mut sum) = (0, 0);
        for (cpu, share, gap) in steps {
            now += match gap {
                0..90_000 => u64::from(gap),
                _ => ends.max(now).saturating_sub(now).saturating_sub(150_000),
            };
            if now >= ends {
                let at = Instant::from_nanos(now);
                (ends, sum) = (now + algorithm.ends_in_ns(0, at), 0);
            }
            let cost = part(amount, share.powi(4)).max(1);
            let admitted = node.admits(cpu % cpus, cost, now);
            sum += if admitted { cost } else { 0 };
            prop_assert!(sum <= amount, "{} of {}", sum, amount);
        }
    }
}

/// In any order, and although CPUs draw shares, the rest never spend the reserve.
#[test]
fn a_part_of_each_limit_is_kept_from_those_that_leave_it_and_others_get_it_all() {
    const AMOUNT: u64 = 100_000;
    let second = Duration::from_secs(1);
    let at = 77 * SECOND;
    for algorithm in [
        window(AMOUNT),
        SlidingWindow::new(AMOUNT, second).unwrap().into(),
        TokenBucket::new(AMOUNT, second, AMOUNT).unwrap().into(),
    ] {
        let node = Machine::new(algorithm, 2);
        let rest = Settings::default().excluded_from_reserve();
        let admitted = |settings, packets: u64| {
            let of_both = (0..packets).filter(|packet| {
                let cpu = usize::try_from(packet % 2).unwrap();
                node.admits_under(settings, cpu, 1, at)
            });
            of_both.count() as u64
        };
        let part = AMOUNT / RESERVE_PART;
        let slack = AMOUNT / SHARES_PART;
        let of_rest = admitted(rest, AMOUNT);
        assert!(of_rest.abs_diff(AMOUNT - part) <= slack, "{of_rest}");
        // Each CPU has drawn a share by now, of which nothing is for the rest.
        assert_eq!(admitted(Settings::default(), 10), 10);
        assert_eq!(admitted(rest, 10), 0);
        let of_others = admitted(Settings::default(), AMOUNT);
        let sum = of_rest + 10 + of_others;
        assert!((AMOUNT - slack..=AMOUNT).contains(&sum), "{sum}");
    }
}

/// Returns what verified sources and the rest get in eight seconds, from the third on, if each
/// sends this many packets per second, evenly.
fn admitted_of_both(algorithm: Algorithm, [verified, rest]: [u64; 2]) -> [u64; 2] {
    let node = Machine::new(algorithm, 2);
    let mut packets = Vec::new();
    let all = Settings::default().preferring_verified();
    for (rate, settings) in [(verified, all), (rest, all.excluded_from_reserve())] {
        packets.extend((0..10 * rate).map(|number| (number * SECOND / rate, settings)));
    }
    packets.sort_by_key(|(at, _)| *at);
    let mut admitted = [0; 2];
    for (number, (at, settings)) in packets.into_iter().enumerate() {
        if node.admits_under(settings, number % 2, 1, 77 * SECOND + at) && at >= 2 * SECOND {
            admitted[usize::from(settings.is_excluded_from_reserve())] += 1;
        }
    }
    admitted
}

/// If verified sources demand ten times the limit, the rest get the capacity that becomes free in
/// their turns. Nothing is lost by that.
#[test]
fn the_rest_get_a_floor_where_verified_sources_ask_for_all() {
    const AMOUNT: u64 = 1_600;
    let second = Duration::from_secs(1);
    let floor = 8 * AMOUNT / TURNS;
    for algorithm in [
        SlidingWindow::new(AMOUNT, second).unwrap().into(),
        TokenBucket::new(AMOUNT, second, AMOUNT).unwrap().into(),
    ] {
        for rest in [AMOUNT, 20 * AMOUNT] {
            let [of_verified, of_rest] = admitted_of_both(algorithm, [10 * AMOUNT, rest]);
            assert!(
                of_rest.abs_diff(floor) <= floor / 20,
                "{of_rest} of {floor}"
            );
            let all = of_verified + of_rest;
            assert!(all.abs_diff(8 * AMOUNT) <= AMOUNT / SHARES_PART, "{all}");
        }
    }
}

/// A flood takes nothing from verified sources as long as they demand less than everything.
#[test]
fn verified_sources_lose_nothing_to_the_turns_of_the_rest() {
    const AMOUNT: u64 = 1_600;
    let second = Duration::from_secs(1);
    for (algorithm, asked) in [
        (window(AMOUNT), AMOUNT / 2),
        (
            SlidingWindow::new(AMOUNT, second).unwrap().into(),
            AMOUNT * 7 / 8,
        ),
        (
            TokenBucket::new(AMOUNT, second, AMOUNT).unwrap().into(),
            AMOUNT * 7 / 8,
        ),
    ] {
        let [of_verified, _] = admitted_of_both(algorithm, [asked, 20 * AMOUNT]);
        assert_eq!(of_verified, 8 * asked, "{algorithm:?}");
    }
}

#[test]
fn what_is_drawn_is_spent_of_policies_that_all_packets_share_alike() {
    let machine = Machine::new(window(100_000), 1);
    let cpu = Cpu {
        machine: &machine,
        cpu: 0,
    };
    let at = 77 * SECOND;
    assert!(machine.admits(0, 1, at));
    let arrival = |settings| Arrival {
        at: Instant::from_nanos(at),
        bytes: 1,
        classes: ClassSet::NONE,
        settings,
    };
    let plain = arrival(Settings::default());
    let spent = |policy: &Policy, arrival: &Arrival| {
        let one = spend_one(Some(policy), &cpu, arrival);
        assert_eq!(spend([Some(policy), None], &cpu, arrival), one);
        one
    };
    let policy = machine.policy;
    assert_eq!(spent(&policy, &plain), Outcome::PASSED);
    let leaving = arrival(Settings::default().excluded_from_reserve());
    assert_eq!(spent(&policy, &leaving), NOT_DRAWN);
    assert_eq!(spent(&policy.for_destination(), &leaving), Outcome::PASSED);
    // Policies that nodes share, or with limits for each source.
    for policy in [policy.on_terms(1), policy.with_further(3)] {
        assert_eq!(spent(&policy, &plain), NOT_DRAWN);
    }
    // If one share does not suffice, the other one is kept.
    let before = machine.shares[0].get();
    let other = policy.on_terms(1);
    assert_eq!(
        spend([Some(&policy), Some(&other)], &cpu, &plain),
        NOT_DRAWN
    );
    assert_eq!(machine.shares[0].get(), before);
}

#[test]
fn of_the_limits_of_a_destination_nothing_is_kept() {
    let mut node = Machine::new(window(1_000), 1);
    node.policy = node.policy.for_destination();
    let rest = Settings::default().excluded_from_reserve();
    let admitted = (0..2_000).filter(|_| node.admits_under(rest, 0, 1, SECOND));
    assert_eq!(admitted.count(), 1_000);
}

/// Two destinations may have the same slot for shares. The share of one is not lost to the other.
#[test]
fn destinations_that_share_a_place_each_admit_their_limit() {
    const AMOUNT: u64 = 100_000;
    let mut both = [7, 8].map(|scope| {
        let limit = Limit::new(window(AMOUNT), Unit::Packets);
        let policy = Policy::new(&[limit], scope, false).unwrap();
        policy.in_shares(share_shift(1)).for_destination()
    });
    let first = NODE_POLICIES + 3;
    both[0] = both[0].in_slot(first);
    let mut others = SHARED_MAX..crate::layout::TOTALS_MAX;
    let second = others.find(|slot| share_place(&both[1].in_slot(*slot)) == first);
    both[1] = both[1].in_slot(second.unwrap());
    assert_eq!(share_place(&both[1]), share_place(&both[0]));
    let shares = Cell::new(Shares::default());
    let words: [[Cell<u64>; LIMITS_MAX]; 2] = Default::default();
    let mut admitted = [0; 2];
    for _ in 0..AMOUNT + 500 {
        for index in [0, 1] {
            let node = OnePlace {
                shares: &shares,
                words: &words[index],
            };
            let arrival = Arrival {
                at: Instant::from_nanos(SECOND),
                bytes: 60,
                classes: ClassSet::NONE,
                settings: Settings::default(),
            };
            let policy = Some(&both[index]);
            let outcome = node.check(policy, &arrival);
            if outcome.is_refused() {
                let reason = outcome.refusal().unwrap().reason;
                assert_eq!(reason, DropReason::DestinationLimited);
            } else if !node.charge(policy, &arrival).is_refused() {
                admitted[index] += 1;
            }
        }
    }
    assert_eq!(admitted, [AMOUNT; 2]);
}

/// Shares that have one place, whichever policy they are of.
struct OnePlace<'a> {
    shares: &'a Cell<Shares>,
    words: &'a [Cell<u64>; LIMITS_MAX],
}

impl<'a> PooledLimits for OnePlace<'a> {
    type Words = SharedWords<'a>;

    fn words(&self, _: &Policy) -> Option<SharedWords<'a>> {
        Some(SharedWords(self.words))
    }

    fn share(&self, _: &Policy, index: usize) -> Share {
        self.shares.get()[index]
    }

    fn change_share(&self, _: &Policy, index: usize, change: impl Fn(Share) -> Share) {
        let mut all = self.shares.get();
        all[index] = change(all[index]);
        self.shares.set(all);
    }
}

struct FixedTimes {
    window_ns: u64,
    tick_ns: u64,
}

fn times(amount: u64) -> FixedTimes {
    let window = FixedWindow::new(amount, Duration::from_secs(1)).unwrap();
    FixedTimes {
        window_ns: window.window_ns(),
        tick_ns: window.tick_ns(),
    }
}

fn window(amount: u64) -> Algorithm {
    FixedWindow::new(amount, Duration::from_secs(1))
        .unwrap()
        .into()
}

/// The CPUs of a machine, with the words that they share.
struct Machine {
    policy: Policy,
    words: [Cell<u64>; LIMITS_MAX],
    shares: Vec<Cell<Shares>>,
}

impl Machine {
    fn new(algorithm: Algorithm, cpus: usize) -> Self {
        let limit = Limit::new(algorithm, Unit::Bytes);
        let shift = share_shift(u32::try_from(cpus).unwrap());
        Self {
            policy: Policy::new(&[limit], 7, false).unwrap().in_shares(shift),
            words: Default::default(),
            shares: (0..cpus).map(|_| Cell::default()).collect(),
        }
    }

    fn admits(&self, cpu: usize, cost: u64, at_ns: u64) -> bool {
        self.admits_under(Settings::default(), cpu, cost, at_ns)
    }

    fn admits_under(&self, settings: Settings, cpu: usize, cost: u64, at_ns: u64) -> bool {
        let node = Cpu { machine: self, cpu };
        let arrival = Arrival {
            at: Instant::from_nanos(at_ns),
            bytes: u32::try_from(cost).unwrap(),
            classes: ClassSet::NONE,
            settings,
        };
        let policy = Some(&self.policy);
        let has_room = !node.check(policy, &arrival).is_refused();
        let before = self.shares[cpu].get();
        let spent = spend_one(policy, &node, &arrival);
        let of_one = self.shares[cpu].replace(before);
        assert_eq!(spend([policy, None], &node, &arrival), spent);
        assert_eq!(self.shares[cpu].get(), of_one);
        if spent != NOT_DRAWN {
            assert!(has_room, "what is drawn is not refused");
            give_back([policy, None], &node, &arrival);
            assert_eq!(self.shares[cpu].replace(of_one), before);
            return spent == Outcome::PASSED;
        }
        has_room && !node.charge(policy, &arrival).is_refused()
    }

    fn admitted(&self, cpu: usize, cost: u64, packets: u64, at_ns: u64) -> u64 {
        let admitted = (0..packets).filter(|_| self.admits(cpu, cost, at_ns));
        admitted.count() as u64 * cost
    }

    fn ends_in_ns(&self, at_ns: u64) -> u64 {
        let limit = self.policy.limit(0).unwrap();
        let word = self.words[0].get();
        limit
            .algorithm()
            .counts_for_ns(word, Instant::from_nanos(at_ns))
    }
}

struct Cpu<'a> {
    machine: &'a Machine,
    cpu: usize,
}

impl<'a> PooledLimits for Cpu<'a> {
    type Words = SharedWords<'a>;

    fn words(&self, _: &Policy) -> Option<SharedWords<'a>> {
        Some(SharedWords(&self.machine.words))
    }

    fn share(&self, _: &Policy, index: usize) -> Share {
        self.machine.shares[self.cpu].get()[index]
    }

    fn change_share(&self, _: &Policy, index: usize, change: impl Fn(Share) -> Share) {
        let shares = &self.machine.shares[self.cpu];
        let mut all = shares.get();
        all[index] = change(all[index]);
        shares.set(all);
    }
}

struct SharedWords<'a>(&'a [Cell<u64>; LIMITS_MAX]);

impl Words for SharedWords<'_> {
    type Ring = Absent;

    fn load(&self, index: usize) -> u64 {
        self.0[index].get()
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        assert_eq!(self.0[index].replace(new), current);
        Ok(())
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "costs need not be exact"
)]
fn part(whole: u64, share: f64) -> u64 {
    (whole as f64 * share) as u64
}
