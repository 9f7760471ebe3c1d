//! The simulator, over many seeds.

use std::thread;

#[path = "../simulator/mod.rs"]
mod simulator;

use simulator::{Tally, run, run_moving};

#[test]
fn fifty_seeds_keep_every_invariant() {
    check_seeds(50);
}

#[test]
#[ignore = "thorough"]
fn ten_thousand_seeds_keep_every_invariant() {
    check_seeds(10_000);
}

fn check_seeds(count: u64) {
    let threads = thread::available_parallelism().map_or(1, usize::from);
    let seeds_from = |first: usize| {
        let mut all = Tally::default();
        for seed in (first as u64..count).step_by(threads) {
            match run(seed) {
                Ok(tally) => all.add(tally),
                Err(violation) => panic!("{violation}"),
            }
        }
        all
    };
    let mut all = Tally::default();
    thread::scope(|scope| {
        let parts: Vec<_> = (0..threads)
            .map(|first| scope.spawn(move || seeds_from(first)))
            .collect();
        for part in parts {
            all.add(part.join().expect("the seeds keep every invariant"));
        }
    });
    println!("{all:?}");
    assert!(
        all.taken > 0 && all.replayed > 0 && all.above > 0,
        "the seeds reach what they are to reach: {all:?}"
    );
}

#[test]
fn a_daemon_that_hung_tells_what_it_holds_when_the_next_period_begins() {
    // It came late into a period, and told what it would hold a whole period later: nothing.
    let violation = run(50_108_883).err();
    assert!(violation.is_none(), "{}", violation.unwrap());
}

#[test]
fn a_source_that_moves_gets_one_limit_in_the_long_run_and_no_window_more() {
    check_long_stays(5);
}

#[test]
#[ignore = "thorough"]
fn a_hundred_sources_that_move_get_one_limit_in_the_long_run_and_no_window_more() {
    check_long_stays(100);
}

fn check_long_stays(seeds: u64) {
    // A period is a second there, and a window four.
    for stays in [8_000, 16_000] {
        let parts = parts(seeds, stays, stays);
        let mean = parts.iter().sum::<u64>() / seeds;
        assert!((960..=1_040).contains(&mean), "{mean} of 1000: {parts:?}");
        let is_near = |part: &u64| (900..=1_120).contains(part);
        assert!(parts.iter().all(is_near), "{parts:?}");
    }
}

#[test]
fn a_source_that_moves_on_before_its_share_follows_gets_most_of_the_limit_and_no_window_more() {
    check_short_stays(12);
}

#[test]
#[ignore = "thorough"]
fn sixty_sources_that_move_on_get_most_of_the_limit_and_no_window_more() {
    check_short_stays(60);
}

fn check_short_stays(seeds: u64) {
    for (stays, least) in [(1_200, 880), (1_600, 800), (2_000, 740), (2_400, 680)] {
        let parts = parts(seeds, stays, 0);
        let mean = parts.iter().sum::<u64>() / seeds;
        assert!(
            (least..=1_040).contains(&mean),
            "{stays}: {mean} of 1000: {parts:?}"
        );
    }
}

fn parts(seeds: u64, stays: u64, returns: u64) -> Vec<u64> {
    let parts = (0..seeds).map(|seed| run_moving(seed, stays, returns));
    let parts: Result<Vec<u64>, _> = parts.collect();
    parts.unwrap_or_else(|violation| panic!("{violation}"))
}
