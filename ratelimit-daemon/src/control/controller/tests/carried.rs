//! Usage survives changes of limits at runtime.

use ratelimit_common::{Limit, Policy, algorithm};
use ratelimit_core::compile::carried::scope_of;

use super::*;

const NET: Option<&str> = Some("192.0.2.0/24");

/// A bucket so slow that nothing is refilled during a test.
fn spec(amount: u64, burst: u64) -> LimitSpec {
    limit_by(amount, 31 * 24 * 3600, Algorithm::TokenBucket { burst })
}

fn bucket(lab: &Lab, address: &str) -> algorithm::Algorithm {
    lab.policy_of(address).limit(0).unwrap().algorithm()
}

#[test]
fn another_amount_keeps_what_was_used_and_another_algorithm_or_policy_is_told_to_restart() {
    let spec = |amount, algorithm| limit_by(amount, 1, algorithm);
    for (algorithm, other) in [
        (Algorithm::FixedWindow, Algorithm::SlidingWindow),
        (Algorithm::SlidingWindow, Algorithm::SlidingLog),
        (Algorithm::SlidingLog, Algorithm::FixedWindow),
        (Algorithm::TokenBucket { burst: 8 }, Algorithm::FixedWindow),
    ] {
        let mut config = config();
        config.default_policy.limits = vec![spec(8, algorithm)];
        let mut lab = Lab::new(config);
        for target in [None, NET] {
            let scope = |lab: &Lab| {
                let prefix = target.map(prefix);
                scope_of(
                    &lab.state.compiled.rules,
                    &lab.state.compiled.policies,
                    prefix.into(),
                )
            };
            // The limits of a prefix count by another algorithm than those around it.
            let first = lab.set_limit(target, spec(8, algorithm)).unwrap();
            assert_eq!(first.starts_anew, target.is_some(), "{algorithm:?}");
            let before = scope(&lab);
            for amount in [7, 8, 1_000, 500, 8] {
                let changed = lab.set_limit(target, spec(amount, algorithm)).unwrap();
                assert!(!changed.starts_anew, "{amount} by {algorithm:?}");
                assert_eq!(scope(&lab), before);
            }
            lab.restart();
            assert_eq!(scope(&lab), before);
            let changed = lab.set_limit(target, spec(8, other)).unwrap();
            assert!(changed.starts_anew && scope(&lab) != before);
        }
    }
}

/// One of them knows the clock only from the kernel, like a daemon that starts.
#[test]
fn what_was_taken_out_of_a_bucket_stays_taken_by_limit_set_reload_and_restart() {
    let mut with_bucket = config();
    with_bucket.default_policy.limits = vec![spec(8, 8)];
    let mut lab = Lab::new(with_bucket.clone());
    let word = bucket(&lab, "8.8.8.8").step(0, clock::now(), 6).unwrap();
    for (amount, burst) in [
        (7, 7),
        (8, 8),
        (1000, 6),
        (1, 1),
        (500, 1000),
        (3, 9),
        (8, 8),
    ] {
        lab.set_limit(None, spec(amount, burst)).unwrap();
        for restarts in [false, true] {
            if restarts {
                lab.restart();
            }
            let bucket = bucket(&lab, "8.8.8.8");
            let now = clock::now();
            assert_eq!(bucket.used(word, now), burst.min(6), "{amount}, {burst}");
            assert_eq!(
                bucket.step(word, now, burst.saturating_sub(6)).is_ok(),
                burst >= 6
            );
            assert!(bucket.step(word, now, burst.saturating_sub(5)).is_err());
        }
    }
    // A policy of the configuration that goes, and comes back with another rate.
    let mut without = with_bucket.clone();
    without.default_policy.limits = vec![limit(10)];
    lab.unlimit(None).unwrap();
    lab.replace(without).unwrap();
    assert_eq!(bucket(&lab, "8.8.8.8").used(word, clock::now()), 0);
    with_bucket.default_policy.limits = vec![spec(9, 9)];
    lab.replace(with_bucket).unwrap();
    assert_eq!(bucket(&lab, "8.8.8.8").used(word, clock::now()), 6);
}

/// A packet may leave a word that says more than the other bucket holds.
#[test]
fn buckets_of_a_prefix_share_what_was_taken_where_they_fill_as_fast_as_those_around() {
    let bucket = |lab: &Lab| {
        let policy = lab.policy_of("192.0.2.1");
        (policy.scope(), policy.limit(0).unwrap().algorithm())
    };
    let mut with_bucket = config();
    with_bucket.default_policy.limits = vec![spec(8, 8)];
    let mut lab = Lab::new(with_bucket);
    let (scope, around) = bucket(&lab);
    let word = around.step(0, clock::now(), 6).unwrap();
    let burst = 1 << 43;
    for restarts in [false, true] {
        let changed = lab.set_limit(NET, spec(8, burst)).unwrap();
        assert!(!changed.starts_anew);
        let (own_scope, own) = bucket(&lab);
        assert_eq!((own_scope, own.used(word, clock::now())), (scope, 6));
        let word = own.step(word, clock::now(), burst - 6).unwrap();
        if restarts {
            lab.restart();
        }
        let changed = lab.unlimit(NET).unwrap();
        assert!(!changed.starts_anew);
        if restarts {
            lab.restart();
        }
        let (own_scope, around) = bucket(&lab);
        assert_eq!((own_scope, around.used(word, clock::now())), (scope, 8));
        assert!(around.step(word, clock::now(), 1).is_err());
    }
    let changed = lab.set_limit(NET, spec(9, 8)).unwrap();
    assert!(changed.starts_anew && bucket(&lab).0 != scope);
    let changed = lab.unlimit(NET).unwrap();
    assert!(changed.starts_anew && bucket(&lab).0 == scope);
}

/// The store is `lru`.
#[test]
fn the_clock_of_a_bucket_that_is_taken_away_and_put_back_continues_also_after_a_crash() {
    let spec = |amount| spec(amount, amount);
    let mut with_bucket = config();
    with_bucket.default_policy.limits = vec![spec(8)];
    let mut lab = Lab::new(with_bucket.clone());
    // Another rate, so that the clock is not that of a bucket that begins.
    with_bucket.default_policy.limits = vec![spec(1000)];
    lab.replace(with_bucket.clone()).unwrap();
    let word = bucket(&lab, "8.8.8.8").step(0, clock::now(), 6).unwrap();
    for amount in [10, 1000] {
        lab.restart_with(config());
        lab.restart_with(config());
        with_bucket.default_policy.limits = vec![spec(amount)];
        lab.restart_with(with_bucket.clone());
        assert_eq!(
            bucket(&lab, "8.8.8.8").used(word, clock::now()),
            6,
            "{amount}"
        );
        let policies = lab.policies();
        let with_clock = policies.values().filter(|policy| policy.has_clock());
        assert_eq!(with_clock.count(), 1);
    }
}

/// A daemon died long ago, before anything named the policy of the files, which is to be in force.
#[test]
fn a_clock_continues_from_the_policy_that_packets_are_judged_by() {
    let spec = |amount| spec(amount, amount);
    let mut config = config();
    config.default_policy.limits = vec![spec(1_000_000)];
    let mut lab = Lab::new(config.clone());
    let judging = lab.policy_index("8.8.8.8");
    let left = lab.policies()[&judging];
    let algorithm = left.limit(0).unwrap().algorithm();
    let word = algorithm.step(0, clock::now(), 500_000).unwrap();
    let fast = spec(1_000_000_000);
    let unnamed = Policy::new(&[fast.compile()], left.scope(), false).unwrap();
    let unnamed = unnamed.after(Some(&left), Instant::from_nanos(5));
    let other = policy_of_another_scope();
    for (index, policy) in [(1_000, unnamed), (1_001, other)] {
        lab.tables_mut().set_policy(index, &policy).unwrap();
    }
    config.default_policy.limits = vec![fast];
    lab.config = config;
    lab.start_again();
    // 373 flow in each second.
    let used = bucket(&lab, "8.8.8.8").used(word, clock::now());
    assert!((400_000..=500_000).contains(&used), "{used}");
    let policies = lab.policies();
    let policies = policies.values();
    assert_eq!(policies.filter(|it| it.scope() == left.scope()).count(), 1);
}

fn policy_of_another_scope() -> Policy {
    Policy::new(&[limit(5).compile()], 77, false).unwrap()
}

#[test]
fn limits_of_a_prefix_have_the_state_of_the_policy_around_it_and_give_it_back() {
    let sliding = |amount| limit_by(amount, 1, Algorithm::SlidingWindow);
    let state = |policy: Policy| {
        let regions: Vec<_> = policy.limits().map(Limit::region).collect();
        (policy.scope(), regions)
    };
    for table_sets in [None, Some(4_096)] {
        let mut lab = Lab::with_sets(config(), table_sets);
        let of = |lab: &Lab, address| state(lab.policy_of(address));
        let (default, partner) = (of(&lab, "8.8.8.8"), of(&lab, "203.0.113.7"));
        for (target, inside, around) in [
            ("10.0.0.0/8", "10.9.9.9", &default),
            ("10.1.0.0/16", "10.1.9.9", &default),
            ("203.0.113.0/24", "203.0.113.7", &partner),
            ("203.0.113.7", "203.0.113.7", &partner),
        ] {
            let changed = lab.limit(Some(target), 7).unwrap();
            assert!(!changed.starts_anew, "{target}");
            assert_eq!((lab.policy_amount(inside), &of(&lab, inside)), (7, around));
            lab.start_again();
            assert_eq!(&of(&lab, inside), around);
        }
        // Another algorithm has state of its own, which one inside shares.
        assert!(
            lab.set_limit(Some("10.0.0.0/8"), sliding(9))
                .unwrap()
                .starts_anew
        );
        assert_ne!(of(&lab, "10.9.9.9"), default);
        assert!(
            lab.set_limit(Some("10.1.0.0/16"), sliding(8))
                .unwrap()
                .starts_anew
        );
        assert_eq!(of(&lab, "10.1.9.9"), of(&lab, "10.9.9.9"));
        for (target, starts_anew) in [
            ("10.0.0.0/8", true),
            ("10.1.0.0/16", true),
            ("203.0.113.7", false),
            ("203.0.113.0/24", false),
        ] {
            let changed = lab.unlimit(Some(target)).unwrap();
            assert_eq!(changed.starts_anew, starts_anew, "{target:?}");
        }
        assert_eq!(of(&lab, "203.0.113.7"), partner);
    }
}

#[test]
fn a_reload_says_which_runtime_limits_lose_the_state_of_the_policy_around_them() {
    let mut lab = Lab::new(config());
    lab.limit(NET, 7).unwrap();
    lab.limit(Some("203.0.113.7"), 7).unwrap();
    let mut other = config();
    other.default_policy.limits = vec![limit_by(10, 60, Algorithm::FixedWindow)];
    let changes = lab.replace(other).unwrap();
    let runtime = changes.iter().filter(|line| line.starts_with("limits of "));
    let expected = ["limits of 192.0.2.0/24: usage counters reset"];
    assert_eq!(runtime.collect::<Vec<_>>(), expected);
}
