//! What sources have used, when their limits change by hand.

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
