//! Two and three CPUs at once, in every order of their steps that matters.
//! [loom](https://docs.rs/loom) runs each of them, also with values that a CPU may still see after
//! another one changed them.
//!
//! Each model is run a second time on words that are stored without comparing. There it has to
//! fail.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a test may panic"
)]

use std::{sync::Arc, time::Duration};

use loom::{
    model::Builder,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    thread,
};
use ratelimit_common::{
    Arrival, AtomicWords, DropReason, Instant, Limit, Policy, Settings, Unit,
    algorithm::FixedWindow,
    charge::{self, Outcome, Words},
    class::ClassSet,
    compact::{self, SLOTS, WORDS, tag_at, word_at},
};

const NOW: Instant = Instant::from_nanos(1 << 40);

#[test]
fn three_cpus_admit_the_limit_and_lose_no_count() {
    explore(|| three_cpus::<Exchanged>(2));
}

#[test]
#[should_panic(expected = "admitted")]
fn three_cpus_that_store_without_comparing_are_caught() {
    explore(|| three_cpus::<Stored>(2));
}

/// Each of three CPUs sends a packet, of which the limit admits fewer.
fn three_cpus<W: Word>(limit: u64) {
    let policy = policy(&[limit]);
    let words = Arc::new(Shared::<W>::default());
    let admitted = cpus(3, {
        let words = words.clone();
        move |_| u64::from(charge::charge(&policy, &*words, &packet()) == Outcome::PASSED)
    });
    assert_eq!(admitted, limit, "admitted");
    assert_eq!(used(limit, words.load(0)), admitted, "used");
}

#[test]
fn two_cpus_charge_two_limits_to_neither_more_than_it_admits() {
    explore(|| two_limits::<Exchanged>(&[2, 3]));
    explore(|| two_limits::<Exchanged>(&[3, 2]));
    explore(|| two_limits::<Exchanged>(&[1, 1]));
}

#[test]
#[should_panic(expected = "the limit")]
fn two_limits_that_are_stored_without_comparing_are_caught() {
    explore(|| two_limits::<Stored>(&[1, 1]));
}

/// Two CPUs send two packets each. A packet that another CPU overtook may stay charged to the first
/// limit alone.
fn two_limits<W: Word>(limits: &[u64; 2]) {
    let policy = policy(limits);
    let words = Arc::new(Shared::<W>::default());
    let admitted = cpus(2, {
        let words = words.clone();
        move |_| {
            let passes = |_: &u32| charge::charge(&policy, &*words, &packet()) == Outcome::PASSED;
            (0..2).filter(passes).count() as u64
        }
    });
    let [first, second] = [0, 1].map(|index| used(limits[index], words.load(index)));
    let least = limits[0].min(limits[1]);
    assert!(admitted <= least, "{admitted} are more than the limit");
    assert!(
        admitted + 1 >= least,
        "{admitted} of {least}: a packet less for the other CPU"
    );
    assert_eq!(second, admitted, "the limit that is charged last");
    assert!(
        (admitted..=admitted + 1).contains(&first),
        "{first} of the limit charged first"
    );
}

#[test]
fn a_packet_that_another_cpu_overtook_passes() {
    explore(|| {
        let words = Arc::new(Shared::<Exchanged>::default());
        let outcomes = [0, 1].map(|_| {
            let (words, policy) = (words.clone(), policy(&[100]));
            thread::spawn(move || charge::charge(&policy, &*words, &packet()))
        });
        // One other packet comes in between once, and then the next try succeeds.
        for outcome in outcomes {
            assert_eq!(outcome.join().unwrap(), Outcome::PASSED);
        }
    });
}

#[test]
fn one_new_source_on_two_cpus_has_one_slot_and_its_limit() {
    explore(|| newcomers::<Exchanged>(0, [7, 7]));
}

#[test]
fn two_new_sources_share_what_a_full_set_has_left_and_lose_no_count() {
    explore(|| newcomers::<Exchanged>(1, [7, 8]));
    explore(|| newcomers::<Exchanged>(1, [7, 7]));
}

#[test]
#[should_panic(expected = "counts")]
fn a_compact_set_that_is_stored_without_comparing_is_caught() {
    explore(|| newcomers::<Stored>(0, [7, 7]));
}

/// Two CPUs send a packet each to a set whose slots have used so much of a limit of 2.
fn newcomers<W: Word>(used_before: u64, tags: [u64; 2]) {
    const LIMIT: u64 = 2;
    let limit = Limit::new(window(LIMIT), Unit::Packets);
    let set = Arc::new(Set::<W>::default());
    for slot in 0..used_before.min(1) * SLOTS as u64 {
        let word = limit.algorithm().step(0, NOW, used_before).unwrap();
        let slot = usize::try_from(slot).unwrap();
        set.compare_exchange(tag_at(slot), 0, 100 + slot as u64)
            .unwrap();
        set.compare_exchange(word_at(slot), 0, word).unwrap();
    }
    let counts = |set: &Set<W>| {
        (0..SLOTS)
            .map(|slot| used(LIMIT, set.load(word_at(slot))))
            .sum::<u64>()
    };
    let before = counts(&set);
    let admitted = cpus(2, {
        let set = set.clone();
        move |cpu| {
            let (outcome, _) = compact::charge(&*set, tags[cpu], &limit, NOW, 1);
            assert!(
                [
                    Outcome::PASSED,
                    Outcome::refused(DropReason::NoState, 0),
                    Outcome::LIMITED
                ]
                .contains(&outcome)
            );
            u64::from(outcome == Outcome::PASSED)
        }
    });
    assert_eq!(counts(&set) - before, admitted, "counts");
    assert!((0..SLOTS).all(|slot| used(LIMIT, set.load(word_at(slot))) <= LIMIT));
    if tags[0] == tags[1] {
        let slots = (0..SLOTS)
            .filter(|slot| set.load(tag_at(*slot)) == tags[0])
            .count();
        assert!((1..=2).contains(&slots), "{slots} slots");
        let found = compact::find(&*set, tags[0]);
        assert!(
            used(LIMIT, set.load(word_at(found))) > used_before,
            "the first slot counts"
        );
    }
}

/// Runs every interleaving with up to three preemptions.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// The number that these CPUs admit together.
fn cpus(number: usize, run: impl Fn(usize) -> u64 + Clone + Send + 'static) -> u64 {
    let others: Vec<_> = (1..number)
        .map(|cpu| {
            let run = run.clone();
            thread::spawn(move || run(cpu))
        })
        .collect();
    let own = run(0);
    own + others
        .into_iter()
        .map(|cpu| cpu.join().unwrap())
        .sum::<u64>()
}

fn window(amount: u64) -> FixedWindow {
    FixedWindow::new(amount, Duration::from_secs(1)).unwrap()
}

fn policy(limits: &[u64]) -> Policy {
    let limits: Vec<Limit> = limits
        .iter()
        .map(|amount| Limit::new(window(*amount), Unit::Packets))
        .collect();
    Policy::new(&limits, 0, false).unwrap()
}

fn packet() -> Arrival {
    Arrival {
        at: NOW,
        bytes: 60,
        classes: ClassSet::default(),
        settings: Settings::default(),
    }
}

fn used(amount: u64, word: u64) -> u64 {
    window(amount).used(word, NOW)
}

/// A word and the way it is changed.
trait Word: Default + Send + Sync + 'static {
    fn load(&self) -> u64;
    fn exchange(&self, current: u64, new: u64) -> Result<(), u64>;
}

/// The real way: compare-and-swap.
struct Exchanged(AtomicU64);

/// The wrong way: compare, then store.
struct Stored(AtomicU64);

impl Default for Exchanged {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Default for Stored {
    fn default() -> Self {
        Self(AtomicU64::new(0))
    }
}

impl Word for Exchanged {
    fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        self.0
            .compare_exchange(current, new, Relaxed, Relaxed)
            .map(drop)
    }
}

impl Word for Stored {
    fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }

    fn exchange(&self, current: u64, new: u64) -> Result<(), u64> {
        let found = self.0.load(Relaxed);
        if found != current {
            return Err(found);
        }
        self.0.store(new, Relaxed);
        Ok(())
    }
}

/// There are no sliding logs.
enum NoRing {}

impl AtomicWords for NoRing {
    fn load(&self, _: u32) -> u64 {
        match *self {}
    }

    fn compare_exchange(&self, _: u32, _: u64, _: u64) -> Result<(), u64> {
        match *self {}
    }
}

/// The words of a source.
#[derive(Default)]
struct Shared<W>([W; 2]);

impl<W: Word> Words for Shared<W> {
    type Ring = NoRing;

    fn load(&self, index: usize) -> u64 {
        self.0[index].load()
    }

    fn compare_exchange(&self, index: usize, current: u64, new: u64) -> Result<(), u64> {
        self.0[index].exchange(current, new)
    }
}

/// The words of a set.
#[derive(Default)]
struct Set<W>([W; WORDS]);

impl<W: Word> AtomicWords for Set<W> {
    fn load(&self, index: u32) -> u64 {
        self.0[index as usize].load()
    }

    fn compare_exchange(&self, index: u32, current: u64, new: u64) -> Result<(), u64> {
        self.0[index as usize].exchange(current, new)
    }
}
