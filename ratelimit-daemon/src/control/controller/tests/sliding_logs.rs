//! Sliding logs: their size, and reports about them.

use ratelimit_core::log_size::LogSize;

use super::*;
use crate::{control::enforcement::map_plan::sizes, datapath::LogRow};

#[test]
fn room_is_made_for_the_longest_log_of_the_configuration_and_of_those_set_at_runtime() {
    let mut config = config();
    assert_eq!(room(&Lab::new(config.clone())), LogSize::NONE);
    config.default_policy.limits = vec![log(3), limit(9)];
    let mut lab = Lab::new(config);
    assert_eq!(room(&lab), LogSize { times: 3, logs: 64 });
    lab.set_limit(Some("192.0.2.0/24"), log(7)).unwrap();
    assert_eq!(room(&lab), LogSize { times: 7, logs: 64 });
    // The configuration's limits come back when those set at runtime are removed.
    lab.limit(None, 9).unwrap();
    lab.unlimit(Some("192.0.2.0/24")).unwrap();
    assert_eq!(room(&lab), LogSize { times: 3, logs: 64 });
}

#[test]
fn a_log_that_is_longer_than_the_room_for_it_is_refused_and_nothing_changes() {
    let mut lab = Lab::new(config());
    lab.resize(|sizes| sizes.logs.times = 5);
    lab.set_limit(Some("192.0.2.0/24"), log(5)).unwrap();
    let before = lab.entries();
    let refused = lab.set_limit(Some("192.0.2.0/24"), log(6)).unwrap_err();
    assert_eq!(
        refused.error,
        "a sliding-log of 6 packets is too long: the configuration reserves room for sliding logs \
         of 5 packets"
    );
    assert!(refused.hint.unwrap().contains("rlctl reload"));
    assert_eq!(lab.entries(), before);
    assert_eq!(lab.policy_amount("192.0.2.1"), 5);
    lab.resize(|sizes| sizes.logs = LogSize::NONE);
    let refused = lab.set_limit(None, log(1)).unwrap_err();
    assert!(
        refused.error.ends_with("reserves no room for sliding logs"),
        "{}",
        refused.error
    );
    assert_eq!(lab.policy_amount("8.8.8.8"), 10);
}

#[test]
fn logs_that_are_there_are_not_made_shorter_while_a_limit_is_one() {
    let held = LogSize { times: 9, logs: 64 };
    let mut config = config();
    for (limits, other, expected) in [
        (vec![log(3), limit(9)], held, held),
        (vec![log(12)], held, LogSize { times: 12, ..held }),
        (vec![limit(9)], held, LogSize::NONE),
        (
            vec![log(3)],
            LogSize { logs: 65, ..held },
            LogSize { times: 3, ..held },
        ),
    ] {
        config.default_policy.limits = limits;
        let lab = Lab::new(config.clone());
        let store = Store::open(lab.directory.path()).unwrap();
        let found = sizes(&lab.config, &store, None, Some(other)).unwrap();
        assert_eq!(found.logs, expected);
    }
}

#[test]
fn check_and_top_read_the_ring() {
    let mut config = config();
    config.default_policy.limits = vec![limit(10), log(4)];
    let lab = Lab::new(config);
    let now = clock::now().as_nanos();
    let second = 1_000_000_000;
    let sources: [IpAddr; 3] =
        ["8.8.8.8", "8.8.4.4", "2001:db8::"].map(|text| text.parse().unwrap());
    {
        let scope = lab.policy_of("8.8.8.8").scope();
        // Three in the last minute, and one that is a minute old; none; all four.
        let fresh = now - 10 * second;
        let old = now - 61 * second;
        let rings = [
            vec![old, fresh, fresh, fresh],
            vec![],
            vec![fresh, fresh, fresh, fresh],
        ];
        for (source, ring) in sources.into_iter().zip(rings) {
            put_record(&lab, source, scope, Record::default());
            if !ring.is_empty() {
                let row = LogRow {
                    source,
                    scope,
                    limit: 1,
                    words: ring,
                };
                lab.tables().sources.put_logs(&[row]).unwrap();
            }
        }
    }
    let used = |source| lab.controller.check(source).unwrap().limits[1].clone();
    let states = sources.map(used);
    assert_eq!(states.clone().map(|state| state.used), [3, 0, 4]);
    let is_about = |seconds: f64, expected: f64| (seconds - expected).abs() < 5.0;
    assert!(is_about(states[0].room_in_seconds, 0.0));
    assert!(is_about(states[0].clears_in_seconds, 50.0), "{states:?}");
    assert!(is_about(states[2].room_in_seconds, 50.0), "{states:?}");
    let top = lab.top(10);
    let top: Vec<(String, u64)> = top
        .into_iter()
        .map(|row| (row.source.to_string(), row.limit.unwrap().used))
        .collect();
    assert_eq!(
        top,
        [("2001:db8::/64".to_owned(), 4), ("8.8.8.8".to_owned(), 3)]
    );
    let drops = lab.controller.check(sources[2]).unwrap();
    assert_eq!(
        (drops.action.as_str(), drops.reason.as_str()),
        ("drop", "limited")
    );
}

fn room(lab: &Lab) -> LogSize {
    let store = Store::open(lab.directory.path()).unwrap();
    sizes(&lab.config, &store, None, None).unwrap().logs
}

fn log(amount: u64) -> LimitSpec {
    limit_by(amount, 60, Algorithm::SlidingLog)
}
