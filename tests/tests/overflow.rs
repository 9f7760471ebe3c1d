//! Counts never wrap into "allowed", however large a limit is and whatever its word contains.

use std::{net::Ipv4Addr, time::Duration};

use fastrand::Rng;
use ratelimit_common::{
    Instant, Limit, Record, SourceKey, Unit,
    algorithm::{FixedWindow, ParameterError, SlidingWindow, TokenBucket},
};
use ratelimit_tests::{
    Frame, Scene,
    pool::Pooled,
    program::{Action, Constants},
    require_root,
    scene::limit,
};

#[test]
fn the_largest_limits_that_can_be_had_end_where_they_should() {
    require_root!();
    for window in [
        Duration::from_millis(10),
        Duration::from_secs(1),
        Duration::from_hours(24 * 31),
    ] {
        let amount = largest(window);
        for unit in [Unit::Packets, Unit::Bytes] {
            let cost = if unit == Unit::Packets { 1 } else { BYTES };
            let limit = Limit::new(FixedWindow::new(amount, window).unwrap(), unit);
            let mut source = Source::new(limit);
            for room in [0, 1, cost - 1, cost, cost + 1, 2 * cost, 2 * cost + 1] {
                source.use_up_to(amount - room);
                assert_eq!(
                    source.admitted(50),
                    room / cost,
                    "{amount} of {unit:?} in {window:?}, {room} left"
                );
            }
        }
    }
}

#[test]
fn a_window_in_which_too_much_was_used_admits_nothing() {
    const AMOUNT: u64 = 5;
    require_root!();
    let mut source = Source::new(packets(AMOUNT));
    let opened = source.limit.algorithm().step(0, NOW, 1).unwrap() - 1;
    // An amount of 5 leaves its count 3 bits.
    for used in 0..8 {
        source.set_word(opened | used);
        assert_eq!(
            source.admitted(20),
            AMOUNT.saturating_sub(used),
            "{used} used"
        );
    }
}

#[test]
fn a_word_of_any_content_admits_no_more_than_the_limit() {
    const AMOUNT: u64 = 5;
    require_root!();
    let second = Duration::from_secs(1);
    let limits = [
        packets(AMOUNT),
        Limit::new(SlidingWindow::new(AMOUNT, second).unwrap(), Unit::Packets),
        Limit::new(TokenBucket::new(7, second, AMOUNT).unwrap(), Unit::Packets),
    ];
    for limit in limits {
        let mut source = Source::new(limit);
        let mut rng = Rng::with_seed(3);
        let edges = [0, 1, u64::MAX, u64::MAX - 1, u64::MAX >> 1, 1 << 63];
        for word in edges.into_iter().chain((0..2_000).map(|_| rng.u64(..))) {
            source.set_word(word);
            let admitted = source.admitted(20);
            assert!(
                admitted <= AMOUNT,
                "{admitted} of {limit:?} with the word {word:#x}"
            );
        }
    }
}

const ADDRESS: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 77);
const BYTES: u64 = 9_000;
const NOW: Instant = Instant::from_nanos(1 << 45);

/// A source under one limit.
struct Source {
    program: Pooled,
    limit: Limit,
    frame: Vec<u8>,
}

impl Source {
    fn new(limit: Limit) -> Self {
        let constants = Constants {
            frags: true,
            ..Constants::default()
        };
        let scene = Scene::limited(&[limit]);
        let program = Pooled::with(&constants, &scene).expect("the program loads");
        program.set_clock(NOW).unwrap();
        let frame = Frame::ethernet()
            .ipv4(ADDRESS)
            .udp(53)
            .pad_to(usize::try_from(BYTES).unwrap());
        Self {
            program,
            limit,
            frame: frame.build(),
        }
    }

    /// Opens a window in which so much was used.
    fn use_up_to(&mut self, count: u64) {
        let word = self.limit.algorithm().step(0, NOW, count).expect("it fits");
        self.set_word(word);
    }

    fn set_word(&mut self, word: u64) {
        let mut record = Record::default();
        record.words[0] = word;
        self.program
            .ipv4
            .set_record(&SourceKey::new(ADDRESS.into(), 0), &record)
            .unwrap();
    }

    /// Returns how many of a number of packets pass.
    fn admitted(&self, packets: u64) -> u64 {
        let passes = |_: &u64| self.program.run(&self.frame).unwrap() == Action::Pass;
        (0..packets).filter(passes).count() as u64
    }
}

fn packets(amount: u64) -> Limit {
    limit(amount, Unit::Packets, Duration::from_secs(1))
}

fn largest(window: Duration) -> u64 {
    match FixedWindow::new(u64::MAX, window) {
        Err(ParameterError::Unrepresentable { amount_max }) => amount_max,
        other => panic!("no window holds 2^64: {other:?}"),
    }
}
