//! What sources have used, when their limits change by hand.

use ratelimit_common::Policy;
use ratelimit_core::compile::carried::scope_of;

use super::*;

const NET: Option<&str> = Some("192.0.2.0/24");

#[test]
fn another_amount_keeps_what_was_used_and_another_algorithm_or_policy_is_told_to_start_anew() {
    let spec = |amount, algorithm| {
        let second = Duration::from_secs(1);
        LimitSpec::new(amount, LimitUnit::Packets, second, algorithm).unwrap()
    };
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
                    &lab.controller.state.rules,
                    &lab.controller.state.policies,
                    prefix,
                )
            };
            // The limits of a prefix are a policy of its own.
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

/// One of them knows the clock by the kernel alone, as a daemon that starts does.
#[test]
fn what_was_taken_out_of_a_bucket_stays_taken_by_limit_set_reload_and_restart() {
    let spec = |amount, burst| {
        // So slow that nothing flows in meanwhile.
        let month = Duration::from_hours(31 * 24);
        let bucket = Algorithm::TokenBucket { burst };
        LimitSpec::new(amount, LimitUnit::Packets, month, bucket).unwrap()
    };
    let bucket = |lab: &Lab, address| {
        let index = lab.policy_index(address);
        lab.memory.lock().unwrap().policies[&index]
            .limit(0)
            .unwrap()
            .algorithm()
    };
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
    let target = LimitTarget { prefix: None };
    lab.controller.remove_limits(target, "root").unwrap();
    lab.replace(without).unwrap();
    assert_eq!(bucket(&lab, "8.8.8.8").used(word, clock::now()), 0);
    with_bucket.default_policy.limits = vec![spec(9, 9)];
    lab.replace(with_bucket).unwrap();
    assert_eq!(bucket(&lab, "8.8.8.8").used(word, clock::now()), 6);
}

#[test]
fn a_clock_goes_on_from_the_policy_that_packets_are_judged_by() {
    let spec = |amount| {
        let bucket = Algorithm::TokenBucket { burst: amount };
        LimitSpec::new(amount, LimitUnit::Packets, Duration::from_secs(1), bucket).unwrap()
    };
    let mut config = config();
    config.default_policy.limits = vec![spec(8)];
    let mut lab = Lab::new(config);
    let judging = lab.policy_index("8.8.8.8");
    // As of a daemon that died before anything named the policy, long ago.
    let mut memory = lab.memory.lock().unwrap();
    let left = memory.policies[&judging];
    let unnamed = Policy::new(&[spec(1_000_000).compile()], left.scope(), false).unwrap();
    memory
        .policies
        .insert(1_000, unnamed.after(Some(&left), Instant::from_nanos(5)));
    memory.policies.insert(1_001, policy_of_another_scope());
    drop(memory);
    lab.restart();
    let memory = lab.memory.lock().unwrap();
    assert_eq!(memory.policies[&judging], left);
    assert_eq!(
        memory
            .policies
            .values()
            .filter(|it| it.scope() == left.scope())
            .count(),
        1
    );
}

fn policy_of_another_scope() -> Policy {
    Policy::new(&[limit(5).compile()], 77, false).unwrap()
}
