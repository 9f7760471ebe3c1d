//! Merging in any order, digests, parts, and the resulting state.

use proptest::prelude::*;

use super::*;
use crate::name::NodeName;
use crate::time::{Millis, Stamp};

type Key = Vec<u8>;

fn name(node: u8) -> NodeName {
    NodeName::new(&format!("node-{node}")).unwrap()
}

fn says(key: u8, stamp: u64, until: Millis) -> Statement<Key> {
    Statement {
        subject: Subject::Ban(vec![key]),
        verb: Verb::Says,
        stamp: Stamp(stamp),
        until,
        note: "why".into(),
    }
}

fn lifts(key: u8, stamp: u64, until: Millis) -> Statement<Key> {
    Statement {
        verb: Verb::Lifts,
        ..says(key, stamp, until)
    }
}

fn merged(statements: &[(u8, Statement<Key>)]) -> StatementSet<Key> {
    let mut set = StatementSet::default();
    for (node, statement) in statements {
        set.merge(&name(*node), statement);
    }
    set
}

fn until(set: &StatementSet<Key>, key: u8, wall: Millis) -> Option<Millis> {
    set.in_force(&Subject::Ban(vec![key]), wall, |_| true, |_| Millis::MAX)
        .map(|in_force| in_force.until)
}

#[track_caller]
fn check(statements: &[(u8, Statement<Key>)], expected: Option<Millis>) {
    assert_eq!(until(&merged(statements), 1, 10), expected);
    let reversed: Vec<_> = statements.iter().rev().cloned().collect();
    assert_eq!(
        until(&merged(&reversed), 1, 10),
        expected,
        "in the other order"
    );
}

#[test]
fn the_longest_end_counts() {
    check(&[(1, says(1, 1, 100)), (2, says(1, 2, 50))], Some(100));
}

#[test]
fn what_ended_does_not_count() {
    check(&[(1, says(1, 1, 10))], None);
}

#[test]
fn a_lift_takes_away_what_came_before() {
    check(&[(1, says(1, 1, 100)), (2, lifts(1, 2, 100))], None);
}

#[test]
fn a_lift_leaves_what_it_did_not_know_of() {
    check(&[(1, says(1, 1, 200)), (2, lifts(1, 2, 100))], Some(200));
}

#[test]
fn what_is_stated_after_a_lift_counts() {
    check(
        &[
            (1, says(1, 1, 100)),
            (2, lifts(1, 2, 100)),
            (1, says(1, 3, 50)),
        ],
        Some(50),
    );
}

#[test]
fn a_lift_is_held_as_long_as_what_it_takes_away() {
    let mut set = merged(&[(1, says(1, 1, 100_000)), (2, lifts(1, 2, 100_000))]);
    for wall in (0..300_000).step_by(1_000) {
        set.forget_ended(wall);
        assert_eq!(until(&set, 1, wall), None);
        set.merge(&name(1), &says(1, 1, 100_000));
    }
}

#[test]
fn a_peer_does_not_ban_longer_than_is_taken_from_it() {
    let set = merged(&[(1, says(1, 1_000, Millis::MAX))]);
    let in_force = set
        .in_force(&Subject::Ban(vec![1]), 0, |_| true, |_| 500)
        .unwrap();
    assert_eq!(in_force.until, 501);
}

#[test]
fn what_a_node_does_not_state_any_more_counts_and_is_left_out_of_its_digest() {
    let mut set = merged(&[(1, says(1, 1, 100)), (1, says(2, 2, 100))]);
    set.unconfirm(&name(1), Stamp(5), |subject, _| {
        *subject == Subject::Ban(vec![1])
    });
    assert_eq!(until(&set, 1, 10), Some(100));
    assert_eq!(
        set.digest(&name(1), 10),
        merged(&[(1, says(2, 2, 100))]).digest(&name(1), 10)
    );
    set.merge(&name(1), &says(1, 1, 100));
    assert_eq!(set.digest(&name(1), 10).count, 2);
}

#[test]
fn a_peer_states_no_more_than_its_bounds() {
    let bounds = Bounds {
        per_minute: 60,
        at_once: 10,
        ..Bounds::default()
    };
    let mut bucket = Bucket::default();
    let taken = (0..60_000)
        .filter(|millisecond| bucket.take(&bounds, *millisecond))
        .count();
    assert!((68..=70).contains(&taken), "{taken}");
}

#[test]
fn a_difference_is_fetched_then_asked_for_then_waited_for() {
    let mut catch_up = CatchUp::default();
    let steps: Vec<_> = (0..10)
        .filter_map(|second| catch_up.compared(false, second * 1000))
        .collect();
    assert_eq!(steps[..4], [Step::Fetch, Step::Ask, Step::Fetch, Step::Ask]);
    assert_eq!(
        (0..3600)
            .filter(|second| catch_up.compared(false, 10_000 + second * 1000).is_some())
            .count()
            / 10,
        6,
        "once a minute"
    );
    assert_eq!(catch_up.compared(true, 0), None);
    assert!(!catch_up.is_behind());
}

fn any_statement() -> impl Strategy<Value = (u8, Statement<Key>)> {
    (0u8..3, 0u8..2, any::<bool>(), 0u64..6, 0u64..6).prop_map(
        |(node, key, is_lift, stamp, until)| {
            (
                node,
                if is_lift {
                    lifts(key, stamp, until)
                } else {
                    says(key, stamp, until)
                },
            )
        },
    )
}

type InForceAndDigests = (Vec<Option<InForce>>, Vec<Digest>);

fn all_of(set: &StatementSet<Key>) -> InForceAndDigests {
    let in_force = (0..2).flat_map(|key| (0..6).map(move |wall| (key, wall)));
    let in_force = in_force
        .map(|(key, wall)| set.in_force(&Subject::Ban(vec![key]), wall, |_| true, |_| Millis::MAX));
    (
        in_force.collect(),
        (0..3)
            .flat_map(|node| (0..6).map(move |after| set.digest(&name(node), after)))
            .collect(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_is_commutative_associative_and_idempotent(
        (statements, shuffled) in prop::collection::vec(any_statement(), 0..16).prop_flat_map(
            |all| (Just(all.clone()), Just(all).prop_shuffle())
        ),
        twice in 0usize..16,
    ) {
        let once = all_of(&merged(&statements));
        let again: Vec<_> = shuffled.iter().chain(shuffled.iter().take(twice)).cloned().collect();
        prop_assert_eq!(all_of(&merged(&again)), once);
    }

    #[test]
    fn a_digest_finds_any_difference(
        statements in prop::collection::vec(any_statement(), 1..16),
        left_out in any::<prop::sample::Index>(),
    ) {
        let all = merged(&statements);
        let mut some = statements;
        some.remove(left_out.index(some.len()));
        let some = merged(&some);
        let content = |set: &StatementSet<Key>| -> Vec<_> {
            (0..3)
                .map(|node| set.of_author(&name(node), 0).collect::<Vec<_>>())
                .collect()
        };
        let digests = |set: &StatementSet<Key>| -> Vec<_> {
            (0..3).map(|node| set.digest(&name(node), 0)).collect()
        };
        prop_assert_eq!(content(&all) == content(&some), digests(&all) == digests(&some));
    }
}
