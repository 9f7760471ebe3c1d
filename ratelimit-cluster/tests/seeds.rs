//! The simulator, over many seeds.

#[path = "../simulator/mod.rs"]
mod simulator;

use simulator::{Tally, run};

#[test]
fn ten_thousand_seeds_keep_every_invariant() {
    let mut all = Tally::default();
    for seed in 0..10_000 {
        match run(seed) {
            Ok(tally) => all.add(tally),
            Err(violation) => panic!("{violation}"),
        }
    }
    println!("{all:?}");
    assert!(
        all.taken > 0 && all.replayed > 0 && all.refused > 0 && all.above > 0,
        "the seeds reach what they are to reach: {all:?}"
    );
}
