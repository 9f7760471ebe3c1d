use std::collections::VecDeque;

use proptest::prelude::*;

use super::*;
use crate::keys::KeyShare;

const SECOND: u64 = 1_000_000_000;
/// A time at which every window has begun.
const START: u64 = 1 << 54;

fn config(limits: &[&str]) -> SpaceConfig {
    let limits = limits.iter().map(|it| serde_json::from_str(it).unwrap());
    SpaceConfig {
        limits: limits.map(RequestLimit).collect(),
        capacity: 1000,
        key: vec![],
        on_refused: None,
        nodes: 1,
    }
}

fn at(nanos: u64) -> Instant {
    Instant::from_nanos(START + nanos)
}

fn obtained(space: &mut Space, key: &str, amount: u64, mode: Mode, nanos: u64) -> u64 {
    space.obtain(key, amount, mode, at(nanos)).amount
}

const FIXED: &str = r#"{"packets": 10, "per": "1m"}"#;
const SLIDING: &str = r#"{"packets": 10, "per": "1m", "algorithm": "sliding-window"}"#;
const BUCKET: &str = r#"{"packets": 10, "per": "1m", "algorithm": "token-bucket", "burst": 6}"#;
const LOG: &str = r#"{"packets": 10, "per": "1m", "algorithm": "sliding-log"}"#;
const ALL: [&str; 4] = [FIXED, SLIDING, BUCKET, LOG];

fn shared(nodes: u64) -> SpaceConfig {
    let limit = r#"{"packets": 10, "per": "1m", "scope": "cluster"}"#;
    SpaceConfig {
        nodes,
        ..config(&[limit])
    }
}

#[test]
fn a_node_uses_its_share_of_a_limit_until_the_lease_ends() {
    let mut space = Space::new(&shared(4));
    let asked = space.obtain("a", 3, Mode::Some, at(0));
    assert_eq!((asked.amount, asked.remaining), (2, 0));
    // The rest may come with the next shares, and never more than the limit.
    assert_eq!(asked.retry_after, Some(Duration::from_mins(1)));
    let [(hash, demand)] = space.demands(at(0))[..] else {
        panic!("one key was asked about");
    };
    assert_eq!((demand.admitted[0], demand.refused[0]), (2, 1));
    assert_eq!(space.used(&hash, 0, [at(0), at(60 * SECOND)]), [2, 0]);
    assert_eq!(space.obtain("a", 11, Mode::All, at(0)).retry_after, None);
    let share = KeyShare {
        amount: 7,
        until: at(SECOND),
        then: 0,
    };
    let mut shares = [None; 8];
    shares[0] = Some(share);
    space.set_shares(KeyShares::from([(hash, shares)]));
    assert_eq!(obtained(&mut space, "a", 4, Mode::Some, SECOND - 1), 4);
    assert_eq!(obtained(&mut space, "a", 4, Mode::Some, SECOND), 0);
    assert_eq!(
        obtained(&mut space, "b", 4, Mode::Some, SECOND),
        2,
        "by default"
    );
    // A change of another part of the space keeps shares; another number of nodes does not.
    space.configure(&shared(4), at(SECOND));
    assert_eq!(obtained(&mut space, "a", 4, Mode::Some, SECOND - 1), 1);
    space.configure(&shared(1), at(SECOND));
    assert_eq!(obtained(&mut space, "a", 9, Mode::Some, SECOND), 3);
}

#[test]
fn a_key_that_nobody_asks_about_for_a_window_has_no_demand() {
    let mut space = Space::new(&shared(2));
    obtained(&mut space, "a", 1, Mode::All, 0);
    obtained(&mut space, "b", 1, Mode::All, SECOND);
    assert_eq!(space.demands(at(60 * SECOND)).len(), 2);
    assert_eq!(space.demands(at(60 * SECOND + 1)).len(), 1);
}

/// Requests as (nanoseconds since the last, amount, whether a part is useful).
fn requests() -> impl Strategy<Value = Vec<(u64, u64, bool)>> {
    prop::collection::vec((0..30 * SECOND, 1u64..13, any::<bool>()), 1..200)
}

proptest! {
    /// With one limit, the answers are those of the algorithm of the packet path.
    #[test]
    fn one_limit_admits_what_its_algorithm_admits(which in 0usize..3, requests in requests()) {
        let config = config(&[ALL[which]]);
        let algorithm = config.limits[0].0.compile().algorithm();
        let mut space = Space::new(&config);
        let (mut word, mut now) = (0, 0);
        for (pause, amount, _) in requests {
            now += pause;
            let expected = algorithm.step(word, at(now), amount);
            let answer = space.obtain("a", amount, Mode::All, at(now));
            prop_assert_eq!(answer.amount > 0, expected.is_ok());
            if expected.is_err() {
                let fits = amount <= algorithm.capacity();
                let after = algorithm.room_in_ns(word, at(now), amount);
                prop_assert_eq!(answer.retry_after, fits.then(|| Duration::from_nanos(after)));
            }
            word = expected.unwrap_or(word);
        }
    }

    /// The log is compared with its definition, and several limits with all of them.
    #[test]
    fn all_limits_are_charged_or_none(requests in requests()) {
        let config = config(&ALL);
        let algorithms = config.limits.iter().map(|it| it.0.compile().algorithm());
        let algorithms: Vec<Algorithm> = algorithms.collect();
        let mut space = Space::new(&config);
        let (mut words, mut now) = ([0; 3], 0);
        let mut log: VecDeque<u64> = VecDeque::new();
        for (pause, amount, is_some) in requests {
            now += pause;
            while log.front().is_some_and(|time| time + 60 * SECOND <= now) {
                log.pop_front();
            }
            let fits = |cost: u64| {
                let each = algorithms.iter().zip(words);
                let mut each = each.filter(|(it, _)| !matches!(it, Algorithm::SlidingLog(_)));
                each.all(|(it, word)| it.step(word, at(now), cost).is_ok())
                    && log.len() as u64 + cost <= 10
            };
            let most = (0..=amount).rev().find(|cost| fits(*cost)).unwrap_or(0);
            let expected = if is_some || most == amount { most } else { 0 };
            let mode = if is_some { Mode::Some } else { Mode::All };
            prop_assert_eq!(obtained(&mut space, "a", amount, mode, now), expected);
            if expected > 0 {
                for (word, algorithm) in words.iter_mut().zip(&algorithms) {
                    *word = algorithm.step(*word, at(now), expected).unwrap();
                }
            }
            log.extend((0..expected).map(|_| now));
        }
    }

    /// So a client that waits as long as it was told is served.
    #[test]
    fn the_amount_fits_after_the_time_that_is_told_and_not_before(
        requests in requests(), which in 0usize..4,
    ) {
        let mut space = Space::new(&config(&[ALL[which], FIXED]));
        let mut now = 0;
        for (pause, amount, _) in requests {
            now += pause;
            let answer = space.obtain("a", amount, Mode::All, at(now));
            let Some(after) = answer.retry_after else { continue };
            let after = u64::try_from(after.as_nanos()).unwrap();
            prop_assert!(after > 0);
            prop_assert_eq!(obtained(&mut space, "a", amount, Mode::All, now + after - 1), 0);
            now += after;
            prop_assert_eq!(obtained(&mut space, "a", amount, Mode::All, now), amount);
        }
    }

    #[test]
    fn a_restart_changes_no_answer(
        requests in requests(), which in 0usize..4, restart in 0usize..200,
    ) {
        let config = config(&[ALL[which], LOG]);
        let (mut space, mut other) = (Space::new(&config), Space::new(&config));
        let mut now = 0;
        for (index, (pause, amount, is_some)) in requests.into_iter().enumerate() {
            now += pause;
            if index == restart {
                let saved = serde_json::to_string(&other.save()).unwrap();
                other = Space::restore(serde_json::from_str(&saved).unwrap(), &config, at(now));
            }
            let mode = if is_some { Mode::Some } else { Mode::All };
            let answers = [&mut space, &mut other].map(|it| it.obtain("a", amount, mode, at(now)));
            prop_assert_eq!(answers[0], answers[1]);
        }
    }
}

#[test]
fn five_windows_from_a_minute_to_a_month_hold_together() {
    let config = config(&[
        r#"{"packets": 10, "per": "1m"}"#,
        r#"{"packets": 50, "per": "1h"}"#,
        r#"{"packets": 100, "per": "1d"}"#,
        r#"{"packets": 200, "per": "7d"}"#,
        r#"{"packets": 300, "per": "31d"}"#,
    ]);
    let mut space = Space::new(&config);
    let minutes = |count: u64| {
        let of = |from: u64| from * 60 * SECOND..(from + 1) * 60 * SECOND;
        (0..count).map(move |minute| of(minute).start)
    };
    let mut sum = 0;
    let mut of_first_day = 0;
    for (minute, now) in minutes(31 * 24 * 60 - 1).enumerate() {
        sum += obtained(&mut space, "a", 7, Mode::Some, now);
        if minute == 59 {
            assert_eq!(sum, 50);
        }
        if minute == 24 * 60 - 1 {
            of_first_day = sum;
        }
    }
    assert_eq!((of_first_day, sum), (100, 300));
}

#[test]
fn the_least_recently_used_key_gives_way_and_a_refused_one_takes_no_place() {
    let mut space = Space::new(&SpaceConfig {
        capacity: 2,
        ..config(&[FIXED])
    });
    for key in ["a", "b", "a", "c"] {
        assert_eq!(
            obtained(&mut space, key, 10, Mode::Some, 0) > 0,
            key != "a" || space.counts().held < 2
        );
    }
    assert_eq!(space.counts().evicted, 1);
    // `b` was forgotten, `a` was not.
    assert_eq!(obtained(&mut space, "a", 1, Mode::All, 0), 0);
    assert_eq!(obtained(&mut space, "new", 11, Mode::All, 0), 0);
    assert_eq!((space.counts().held, space.counts().evicted), (2, 1));
    assert_eq!(space.obtain("b", 0, Mode::All, at(0)).remaining, 10);
    assert_eq!(space.counts().held, 2);
    assert!(space.reset("a") && !space.reset("a"));
    assert_eq!(obtained(&mut space, "a", 10, Mode::All, 0), 10);
}

#[test]
fn usage_survives_a_change_of_the_amount_and_not_of_the_window() {
    for limit in ALL {
        let mut space = Space::new(&config(&[limit, r#"{"packets": 99, "per": "1h"}"#]));
        assert_eq!(obtained(&mut space, "a", 5, Mode::All, 0), 5, "{limit}");
        let more = limit.replace("10", "20");
        let swapped = [r#"{"packets": 99, "per": "1h"}"#, &more];
        space.configure(&config(&swapped), at(1));
        let used = |space: &Space| {
            space
                .levels("a", at(1))
                .into_iter()
                .map(|it| it.used)
                .collect::<Vec<_>>()
        };
        assert_eq!(used(&space), [5, 5], "{limit}");
        let fewer = limit.replace("10", "3");
        space.configure(&config(&[&fewer]), at(1));
        assert_eq!(
            obtained(&mut space, "a", 1, Mode::All, 1),
            u64::from(limit == BUCKET),
            "{limit}"
        );
        let longer = limit.replace("1m", "2h");
        space.configure(&config(&[&longer]), at(1));
        assert_eq!(used(&space), [0], "{limit}");
    }
}

#[test]
fn the_refusal_that_reaches_the_number_bans_and_counting_begins_again() {
    let client: Prefix = "192.0.2.1".parse().unwrap();
    let mut space = Space::new(&SpaceConfig {
        on_refused: Some(super::super::OnRefused {
            after: 3,
            within: Duration::from_mins(1),
            ban: Duration::from_mins(10),
        }),
        ..config(&[FIXED])
    });
    let answers: Vec<bool> = (0..7)
        .map(|nanos| space.refuse(client, at(nanos)))
        .collect();
    assert_eq!(answers, [false, false, true, false, false, true, false]);
    // The window is over.
    let later = (0..3).map(|nanos| space.refuse(client, at(61 * SECOND + nanos)));
    assert_eq!(later.collect::<Vec<_>>(), [false, false, true]);
    let mut without = Space::new(&config(&[FIXED]));
    assert!(!(0..9).any(|nanos| without.refuse(client, at(nanos))));
}
