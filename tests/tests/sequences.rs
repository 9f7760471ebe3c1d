//! Reloads, trials, ends and starts one after the other let nothing pass that both rules refuse.
//! `cargo xtask campaign --sequences` plays more of them.

use ratelimit_tests::{
    require_root,
    sequences::{
        self, Sequence,
        Step::{Kill, KilledAtStart, KilledInReload, Reload, Term},
    },
};

#[test]
fn a_start_with_other_rules_is_one_step() {
    require_root!();
    let steps = [
        (Term, "one"),
        (Kill, "other"),
        (Kill, "many"),
        (Term, "one"),
        (KilledInReload, "class"),
    ];
    require_none(&play("default", &steps));
    require_none(&play("destination", &[(Kill, "one"), (Term, "node")]));
}

/// Programs that run have no words for the limit that refuses.
#[test]
fn limits_with_longer_records_come_in_one_step() {
    require_root!();
    require_none(&play("one", &[(Reload, "three")]));
    require_none(&play("one", &[(Kill, "three")]));
    require_none(&play(
        "log",
        &[(Reload, "three"), (Kill, "log"), (Kill, "three")],
    ));
}

#[test]
#[ignore = "thorough"]
fn limits_with_longer_records_come_and_go_in_one_step_with_other_tables() {
    require_root!();
    for next in ["three+tunnels", "three+capacity", "three+networks"] {
        require_none(&play(
            "one",
            &[(Reload, next), (Reload, "one"), (Kill, next)],
        ));
    }
}

/// The programs that come have new features, and would have no words for the limit of before.
#[test]
fn limits_with_longer_records_go_in_one_step() {
    require_root!();
    for next in ["limited", "one+compact"] {
        require_none(&play("three", &[(Term, next)]));
    }
    require_none(&play("log", &[(Kill, "address")]));
}

/// Another size of the table of `compact`, and another store, come with other tables for
/// everything.
#[test]
fn a_start_with_other_tables_is_one_step() {
    require_root!();
    let first = "default+classes";
    require_none(&play(
        first,
        &[
            (Term, "one+algorithms+compact"),
            (Kill, "bucket+total+compact"),
            (KilledAtStart, "other+compact"),
            (Kill, "node+classes"),
        ],
    ));
}

#[test]
fn nothing_passes_that_the_rules_before_and_after_refuse() {
    require_root!();
    require_none(&sequences::play(1, None).unwrap());
}

#[test]
#[ignore = "thorough"]
fn nothing_passes_in_many_sequences_that_the_rules_before_and_after_refuse() {
    require_root!();
    for seed in 2..10 {
        require_none(&sequences::play(seed, None).unwrap());
    }
}

fn play(first: &str, steps: &[(sequences::Step, &str)]) -> Sequence {
    sequences::play_steps(first, steps, &mut fastrand::Rng::new()).unwrap()
}

#[track_caller]
fn require_none(sequence: &Sequence) {
    println!("{}", sequence.text);
    assert_eq!(sequence.passed, 0, "{}", sequence.text);
}
