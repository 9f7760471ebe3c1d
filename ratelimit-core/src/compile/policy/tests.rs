use std::time::Duration;

use crate::{class::Match, limit::LimitUnit};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn words_are_kept_only_where_they_mean_the_same() {
    let bucket = |amount, burst| spec(amount, SECOND, Algorithm::TokenBucket { burst });
    let fixed = |amount| spec(amount, SECOND, Algorithm::FixedWindow);
    let sliding = |amount, window| spec(amount, window, Algorithm::SlidingWindow);
    let log = |amount, window| spec(amount, window, Algorithm::SlidingLog);
    let of = |limit: LimitSpec, class: &str| limit.of_class(Match::Named(class.to_owned()));
    let cases = [
        (fixed(600), fixed(1000), true),
        (fixed(100), fixed(200), true),
        (fixed(8), fixed(7), true),
        (fixed(600), sliding(600, SECOND), false),
        (fixed(600), bucket(600, 600), false),
        (sliding(600, SECOND), sliding(1000, SECOND), true),
        (sliding(1000, SECOND), sliding(500, SECOND), true),
        (sliding(600, SECOND), sliding(600, 2 * SECOND), false),
        (sliding(600, SECOND), bucket(600, 600), false),
        (bucket(600, 600), bucket(600, 900), true),
        (bucket(600, 600), bucket(601, 600), true),
        (bucket(600, 600), bytes_of_a_bucket(), false),
        (log(600, SECOND), log(600, 2 * SECOND), true),
        (log(600, SECOND), log(601, SECOND), true),
        (log(600, SECOND), sliding(600, SECOND), false),
        (of(fixed(600), "udp"), of(fixed(1000), "udp"), true),
        (fixed(600), of(fixed(600), "udp"), false),
        (of(fixed(600), "tcp"), of(fixed(600), "udp"), false),
        (of(fixed(600), "other"), of(fixed(600), "udp"), false),
    ];
    for (before, after, expected) in cases {
        assert_eq!(
            keeps(&[&before], &[&after]),
            expected,
            "{before} -> {after}"
        );
    }
    assert!(!keeps(&[&fixed(9)], &[&fixed(9), &fixed(9)]));
}

#[test]
fn a_class_that_is_renamed_keeps_its_state_and_one_that_is_changed_does_not() {
    let catalogue = |name: &str, port: u16| {
        let mut catalogue = Catalogue::default();
        let class = format!(r#"{{"destination_ports": ["{port}"]}}"#);
        catalogue.insert(name.to_owned(), serde_json::from_str(&class).unwrap());
        catalogue
    };
    let limit = |name: &str| {
        [spec(9, SECOND, Algorithm::FixedWindow).of_class(Match::Named(name.to_owned()))]
    };
    let before = (&limit("web")[..], &catalogue("web", 80));
    assert!(keeps_state(before, (&limit("www"), &catalogue("www", 80))));
    assert!(!keeps_state(before, (&limit("web"), &catalogue("web", 81))));
}

#[test]
fn a_bucket_of_the_node_and_what_its_cpus_can_hold_are_together_the_burst() {
    for (cpus, burst) in [(1, 1_000_000), (2, 300_000), (96, 10_000_000), (7, 100)] {
        let policy = node(cpus, burst);
        let limit = policy.limit(0).unwrap();
        let share = limit.capacity() >> policy.share_shift();
        let held = u64::from(cpus) * share;
        assert!(limit.capacity() + held <= burst, "{cpus} CPUs, {burst}");
        assert!(
            limit.capacity() >= burst - burst / 128,
            "{cpus} CPUs, {burst}"
        );
    }
    assert!(node(2, 300_000).limit(0).unwrap().capacity() < 300_000);
}

fn node(cpus: u32, burst: u64) -> Policy {
    let limits = [spec(1000, SECOND, Algorithm::TokenBucket { burst })];
    let compiler = Compiler {
        catalogue: &Catalogue::default(),
        numbers: &ClassNumbers::default(),
        held_node: None,
        cpus,
        nodes: 1,
        source: &SourceConfig::default(),
    };
    let wanted = WantedPolicy::new("[node]".to_owned(), &limits, false, Role::Node);
    compiler.compile(&wanted, &wanted.name).policy
}

fn keeps(before: &[&LimitSpec], after: &[&LimitSpec]) -> bool {
    let limits = |limits: &[&LimitSpec]| -> Vec<LimitSpec> {
        limits.iter().map(|limit| (*limit).clone()).collect()
    };
    let classes = Catalogue::default();
    keeps_state((&limits(before), &classes), (&limits(after), &classes))
}

fn bytes_of_a_bucket() -> LimitSpec {
    let bucket = Algorithm::TokenBucket { burst: 600 };
    LimitSpec::new(600, LimitUnit::Bytes, SECOND, bucket).unwrap()
}

fn spec(amount: u64, window: Duration, algorithm: Algorithm) -> LimitSpec {
    LimitSpec::new(amount, LimitUnit::Packets, window, algorithm).unwrap()
}
