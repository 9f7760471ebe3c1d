//! What is seen of sources, and what is made of it.

use ratelimit_common::Record;

use super::*;
use crate::api::SuggestRequest;

#[test]
fn windows_are_counted_in_their_last_tenth_and_kept_over_a_restart() {
    let mut lab = Lab::new(config());
    lab.controller.look();
    assert!(
        lab.controller
            .suggest(&request())
            .unwrap_err()
            .error
            .contains("too little was seen: 0 windows")
    );
    // Of the second kind of source the window has just begun.
    windows(&lab, 0..1_000, 7, Duration::from_millis(950));
    windows(&lab, 1_000..3_000, 2, Duration::from_millis(100));
    lab.controller.look();
    let told = lab.controller.suggest(&request()).unwrap();
    let limit = &told.limits[0];
    assert_eq!((limit.windows, limit.sources), (1_000, 1_000));
    assert_eq!((limit.median, limit.at, limit.most), (7, 7, 7));
    assert_eq!(limit.proposed.as_ref().unwrap().amount(), 14);
    lab.controller.keep_history();
    lab.restart();
    assert_eq!(
        lab.controller.suggest(&request()).unwrap().limits,
        told.limits
    );
}

#[test]
fn a_full_window_says_that_the_limit_is_too_small_to_tell() {
    let mut lab = Lab::new(config());
    let most = lab.controller.limits()[0].limits[0].amount();
    windows(&lab, 0..1_000, most, Duration::from_millis(950));
    lab.controller.look();
    let told = lab.controller.suggest(&request()).unwrap();
    assert!(told.limits[0].at_least);
    assert_eq!(told.limits[0].proposed.as_ref().unwrap().amount(), 2 * most);
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
        let refused = lab.controller.suggest(&request).unwrap_err();
        assert!(refused.error.contains("is not between"), "{refused:?}");
    }
}

/// Sources under the default policy that have sent so much in a window which opened some time ago.
fn windows(lab: &Lab, sources: std::ops::Range<u32>, packets: u64, ago: Duration) {
    let named = lab.controller.policies.get("default").unwrap();
    let limit = named.policy.limits().next().unwrap().algorithm();
    let ago = u64::try_from(ago.as_nanos()).unwrap();
    let opened = Instant::from_nanos(clock::now().as_nanos() - ago);
    let word = limit.step(0, opened, packets).unwrap();
    let mut record = Record::default();
    record.words[0] = word;
    let mut memory = lab.memory.lock().unwrap();
    for source in sources {
        let source = std::net::Ipv4Addr::from(0x0a00_0000 + source).into();
        memory
            .records
            .insert((source, named.policy.scope()), record);
    }
}

fn request() -> SuggestRequest {
    SuggestRequest {
        percentile: 99.0,
        headroom: 2.0,
        since_seconds: 86_400.0,
    }
}
