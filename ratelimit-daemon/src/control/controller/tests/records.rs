//! Records of sources, which have as many words as the largest policy has limits.

use ratelimit_common::features::Feature;

use super::*;
use crate::control::enforcement::map_plan::sizes;

#[test]
fn records_become_longer_with_the_first_policy_that_needs_it_and_not_shorter() {
    let mut lab = Lab::new(config());
    lab.resize(|sizes| sizes.words = 1);
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.limit(Some("192.0.2.0/24"), 9).unwrap();
    assert_eq!((words(&lab), lab.state.noted.renewals), (1, 0));
    set(&mut lab, 3).unwrap();
    assert_eq!((words(&lab), lab.state.noted.renewals), (4, 1));
    set(&mut lab, 4).unwrap();
    lab.limit(Some("192.0.2.0/24"), 9).unwrap();
    assert_eq!((words(&lab), lab.state.noted.renewals), (4, 1));
    // A refusal changes nothing.
    let refused = set(&mut lab, 9).unwrap_err();
    assert!(refused.error.contains("maximum 8"), "{}", refused.error);
    assert_eq!((words(&lab), lab.state.noted.renewals), (4, 1));
    // Total limits of a destination need no record of a source.
    set_of(&mut lab, 8, |request| {
        request.prefix = None;
        request.destination = Some(prefix("198.51.100.7/32"));
    })
    .unwrap();
    assert_eq!((words(&lab), lab.state.noted.renewals), (4, 1));
}

#[test]
fn a_start_makes_words_for_the_configuration_and_what_was_set_at_runtime() {
    let mut lab = Lab::new(config());
    assert_eq!(planned(&lab), 1);
    set(&mut lab, 5).unwrap();
    assert_eq!(planned(&lab), 8);
    lab.limit(Some("192.0.2.0/24"), 9).unwrap();
    assert_eq!(planned(&lab), 1);
    let mut config = config();
    config.default_policy.limits = vec![limit(3), limit(4)];
    config.node.limits = vec![limit(1), limit(2), limit(3)];
    assert_eq!(planned(&Lab::new(config.clone())), 2);
    config.default_policy.limits = Vec::new();
    config.policies = BTreeMap::default();
    assert_eq!(planned(&Lab::new(config)), 1);
}

/// Loading a program takes a good part of a second.
#[test]
fn another_table_of_sources_gives_running_programs_no_features_but_those_of_both_configurations() {
    let mut lab = Lab::new(config());
    lab.switches().specialised.clear();
    let before = lab.switches().features;
    let mut next = config();
    next.source.capacity *= 2;
    lab.replace_config(next.clone()).unwrap();
    lab.follow_tables();
    assert_eq!(lab.switches().specialised, []);
    assert_eq!(lab.switches().features, before);
    next.source.capacity *= 2;
    next.node.limits = vec![limit(9)];
    lab.replace_config(next.clone()).unwrap();
    lab.follow_tables();
    let both = before.with(Feature::Node);
    assert_eq!(lab.switches().specialised, [both]);
    next.source.capacity *= 2;
    next.node.limits = Vec::new();
    lab.replace_config(next).unwrap();
    lab.follow_tables();
    assert_eq!(lab.switches().specialised, [both]);
    assert_eq!(lab.switches().features, before);
}

fn words(lab: &Lab) -> u32 {
    lab.tables().sources.record_words()
}

fn planned(lab: &Lab) -> u32 {
    let store = Store::open(lab.directory.path()).unwrap();
    sizes(&lab.config, &store, None, None).unwrap().words
}

fn set(lab: &mut Lab, limits: u64) -> Result<Changed, Refused> {
    set_of(lab, limits, |_| {})
}

fn set_of(
    lab: &mut Lab,
    limits: u64,
    other: impl FnOnce(&mut LimitRequest),
) -> Result<Changed, Refused> {
    let mut request = LimitRequest {
        prefix: Some(prefix("192.0.2.0/24")),
        limits: (1..=limits).map(limit).collect(),
        ..LimitRequest::default()
    };
    other(&mut request);
    lab.set_limits(request, "root")
}
