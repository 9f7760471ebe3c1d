//! Failures at random moments, under traffic: all nodes together stay within the bound, and no ban
//! is lost. `cargo xtask campaign` plays more of them.

use ratelimit_tests::{
    cluster::campaign::{Deadlines, Rig},
    require_package, require_root,
};

/// A node is cut off, Redis is read-only, another Redis takes its place, and a daemon is killed.
const SEEDS: [u64; 4] = [9, 28, 11, 3];

#[test]
#[ignore = "thorough"]
fn failures_under_traffic_admit_no_more_than_the_bound_and_open_no_ban() {
    require_root!();
    require_package!("redis-server");
    let mut rig = Rig::new(Deadlines::BUSY).unwrap();
    let played = rig.play(SEEDS.into_iter(), |seed, outcome| {
        println!("seed {seed}: {outcome:?}");
    });
    let played = played.unwrap();
    assert_eq!(played.outcomes.len(), SEEDS.len());
    played.check_memory(&Deadlines::BUSY).unwrap();
}
