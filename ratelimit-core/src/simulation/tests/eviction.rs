//! More sources than there is room for.

use super::*;

const SLOW: &str = "limits = [{ packets = 2, per = \"1h\" }]";

#[test]
fn the_source_that_was_not_seen_for_longest_restarts() {
    // Two of the first, and again two when it comes back.
    check(2, 6, 2);
    check(3, 4, 0);
}

#[test]
fn a_source_that_was_seen_since_is_kept() {
    let mut simulation = simulation(&config("lru", 2), None);
    for last in [1, 1, 2, 1, 3, 1] {
        send(&mut simulation, 0, &ipv4([198, 51, 100, last]));
    }
    let answer = simulation.answer(10);
    check_verdicts(
        &answer,
        &[("pass", "conforming", 4), ("drop", "limited", 2)],
    );
    assert_eq!(answer.evicted, 1);
}

#[test]
fn in_a_compact_table_a_source_that_comes_back_has_what_it_had_used() {
    let mut simulation = simulation(&config("compact", 64), None);
    let source = ipv4([198, 51, 100, 1]);
    send(&mut simulation, 0, &source);
    send(&mut simulation, 0, &source);
    for number in 0..5_000_u16 {
        let [high, low] = number.to_be_bytes();
        send(&mut simulation, 1, &ipv4([10, 0, high, low]));
    }
    let before = simulation.answer(1).verdicts;
    send(&mut simulation, 2, &source);
    let answer = simulation.answer(1);
    let passed = |verdicts: &[VerdictRow]| {
        let passed = verdicts.iter().filter(|row| row.action == "pass");
        passed.map(|row| row.packets).sum::<u64>()
    };
    assert_eq!(passed(&answer.verdicts), passed(&before));
    assert!(passed(&answer.verdicts) < 2_000, "{:?}", answer.verdicts);
    assert!(answer.evicted > 0);
}

/// Packets that pass if three sources send, and then the first again.
fn check(capacity: u32, passed: u64, evicted: u64) {
    let mut simulation = simulation(&config("lru", capacity), None);
    for last in [1, 1, 1, 2, 3, 1, 1] {
        send(&mut simulation, 0, &ipv4([198, 51, 100, last]));
    }
    let answer = simulation.answer(10);
    let expected = [
        ("pass", "conforming", passed),
        ("drop", "limited", 7 - passed),
    ];
    check_verdicts(&answer, &expected);
    assert_eq!(answer.evicted, evicted);
}

fn config(store: &str, capacity: u32) -> String {
    format!("[source]\nstore = \"{store}\"\ncapacity = {capacity}\n[policy.default]\n{SLOW}")
}
