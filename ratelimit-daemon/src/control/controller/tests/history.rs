//! The usage history, and suggestions from it.

use ratelimit_common::Record;
use ratelimit_core::api::{SuggestRequest, Suggested};

use super::*;

/// In the last tenth of [`slow`], with time to look.
pub(super) const LATE: Duration = Duration::from_secs(220);

#[test]
fn windows_are_counted_in_their_last_tenth_and_kept_over_a_restart() {
    let mut config = config();
    config.default_policy.limits = vec![slow(10, Algorithm::FixedWindow)];
    let mut lab = Lab::new(config);
    lab.sample();
    assert!(
        lab.suggest(&request())
            .unwrap_err()
            .error
            .contains("too few samples: 0 windows")
    );
    // The window of the second group of sources has just begun.
    windows(&lab, 0..1_000, 7, LATE);
    windows(&lab, 1_000..3_000, 2, Duration::from_millis(100));
    let reported = sampled(&mut lab);
    let limit = &reported.limits[0];
    assert_eq!((limit.windows, limit.sources), (1_000, 1_000));
    assert_eq!((limit.median, limit.at, limit.most), (7, 7, 7));
    assert_eq!(limit.proposed.as_ref().unwrap().amount(), 14);
    lab.keep_history();
    lab.restart();
    assert_eq!(lab.suggest(&request()).unwrap().limits, reported.limits);
}

#[test]
fn a_full_window_says_that_the_limit_is_too_small_to_tell() {
    let mut config = config();
    config.default_policy.limits = vec![slow(10, Algorithm::FixedWindow)];
    let mut lab = Lab::new(config);
    let most = queries::limits(&lab.state)[0].limits[0].amount();
    windows(&lab, 0..1_000, most, LATE);
    lab.sample();
    let reported = lab.suggest(&request()).unwrap();
    assert!(reported.limits[0].at_least);
    assert_eq!(
        reported.limits[0].proposed.as_ref().unwrap().amount(),
        2 * most
    );
}

#[test]
fn a_walk_in_parts_counts_each_source_once() {
    const SOURCES: u64 = 10_000;
    let mut config = config();
    config.default_policy.limits = vec![slow(1_000, Algorithm::FixedWindow)];
    let mut lab = Lab::new(config);
    windows(&lab, 0..10_000, 3, LATE);
    for _ in 0..40 {
        lab.sample();
        if let Ok(reported) = lab.suggest(&request()) {
            assert!(reported.limits[0].sources <= SOURCES, "{reported:?}");
        }
    }
    let reported = lab.suggest(&request()).unwrap();
    let limit = &reported.limits[0];
    assert_eq!(limit.sources, SOURCES);
    assert!(limit.windows > SOURCES, "{limit:?}");
}

#[test]
fn what_is_in_a_sliding_log_is_counted() {
    let mut config = config();
    config.default_policy.limits = vec![limit(10), slow(700, Algorithm::SlidingLog)];
    let mut lab = Lab::new(config);
    let now = clock::now().as_nanos();
    let (within, before) = (now, now - 250_000_000_000);
    let scope = lab
        .state
        .compiled
        .policies
        .get("default")
        .unwrap()
        .policy
        .scope();
    for source in 0..1_000_u32 {
        let source = std::net::Ipv4Addr::from(0x0a00_0000 + source).into();
        let ring = [vec![0, before], vec![within; 600]].concat();
        lab.memory().logs.insert((source, scope, 1), ring);
    }
    let reported = sampled(&mut lab);
    let log = &reported.limits[1];
    assert!((600..=606).contains(&log.at), "{log:?}");
    assert_eq!(reported.limits[0].windows, 0);
    // Twice as much is more than a log may have.
    assert_eq!(log.proposed.as_ref().unwrap().amount(), 1024);
}

#[test]
fn what_the_node_has_used_is_counted() {
    let mut config = config();
    config.node.limits = vec![slow(5_000, Algorithm::SlidingWindow)];
    let mut lab = Lab::new(config);
    let node = lab.state.compiled.policies.get("[node]").unwrap();
    let limit = node.policy.limits().next().unwrap().algorithm();
    let word = limit.step(0, clock::now(), 700).unwrap();
    let mut record = Record::default();
    record.words[0] = word;
    let scope = node.policy.scope() % ratelimit_common::layout::NODE_POLICIES;
    lab.memory().totals.insert(scope, record);
    for _ in 0..20 {
        lab.sample();
    }
    let request = SuggestRequest {
        percentile: 50.0,
        ..request()
    };
    let reported = lab.suggest(&request).unwrap();
    let node = reported
        .limits
        .iter()
        .find(|it| it.policy == "[node]")
        .unwrap();
    assert_eq!((node.windows, node.sources), (20, 1));
    assert!((700..=707).contains(&node.at), "{node:?}");
    let proposed = node.proposed.as_ref().unwrap().amount();
    assert!((1_400..=1_500).contains(&proposed), "{proposed}");
}

#[test]
fn a_figure_that_makes_no_sense_is_refused() {
    let lab = Lab::new(config());
    for (percentile, headroom) in [(100.0, 2.0), (0.0, 2.0), (f64::NAN, 2.0), (99.0, 0.5)] {
        let request = SuggestRequest {
            percentile,
            headroom,
            ..request()
        };
        let refused = lab.suggest(&request).unwrap_err();
        assert!(refused.error.contains("is not between"), "{refused:?}");
    }
}

/// Returns the suggestion as soon as there is enough data. A sample is limited in time, so on a
/// busy machine it takes several.
fn sampled(lab: &mut Lab) -> Suggested {
    for _ in 0..1_000 {
        lab.sample();
        if let Ok(reported) = lab.suggest(&request()) {
            return reported;
        }
    }
    panic!("too little is seen");
}

/// Sources under the default policy that have sent so much in a window which opened some time ago.
pub(super) fn windows(lab: &Lab, sources: std::ops::Range<u32>, packets: u64, ago: Duration) {
    let named = lab.state.compiled.policies.get("default").unwrap();
    let limit = named.policy.limits().next().unwrap().algorithm();
    let ago = u64::try_from(ago.as_nanos()).unwrap();
    let opened = Instant::from_nanos(clock::now().as_nanos() - ago);
    let word = limit.step(0, opened, packets).unwrap();
    let mut record = Record::default();
    record.words[0] = word;
    let mut memory = lab.memory();
    for source in sources {
        let source = std::net::Ipv4Addr::from(0x0a00_0000 + source).into();
        memory
            .records
            .insert((source, named.policy.scope()), record);
    }
}

/// A limit of packets in four minutes.
pub(super) fn slow(amount: u64, algorithm: Algorithm) -> LimitSpec {
    limit_by(amount, 240, algorithm)
}

pub(super) fn request() -> SuggestRequest {
    SuggestRequest {
        percentile: 99.0,
        headroom: 2.0,
        since_seconds: 86_400.0,
    }
}
