//! Recorded events, and what `check` reports.

use ratelimit_common::{DropReason, Family, event::DropEvent};
use ratelimit_core::{
    api::{BanChange, CoveringEntry, What},
    limit::LimitSpec,
};

use super::*;
use crate::clock;

#[test]
fn of_all_that_covers_an_address_one_decides_and_the_rest_lies_beneath() {
    let mut lab = Lab::new(config());
    let (soon, later) = (
        clock::after(Duration::from_mins(1)),
        clock::after(Duration::from_hours(1)),
    );
    lab.edit(&[
        ban("192.0.2.1", Origin::Manual, soon),
        ban("192.0.2.0/24", Origin::list("drop"), later),
    ]);
    check(
        &lab,
        &["+ban 192.0.2.0/24", "ban 192.0.2.1", "policy default"],
    );
    lab.allow("192.0.0.0/16", None).unwrap();
    check(
        &lab,
        &[
            "+allow 192.0.0.0/16",
            "ban 192.0.2.0/24",
            "ban 192.0.2.1",
            "policy default",
        ],
    );
}

#[test]
fn changes_are_reported_after_a_restart_too_and_drops_are_not() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], Some(600.0)).unwrap();
    lab.limit(None, 7).unwrap();
    lab.state.keep_journal();
    let before = lab.events();
    assert_eq!(before.len(), 2);
    lab.start_again();
    assert_eq!(lab.events(), before);
    lab.ban(&["192.0.2.2"], None).unwrap();
    let after = lab.events();
    assert_eq!((after.len(), after[2].number), (3, 3));
}

#[test]
fn a_drop_is_kept_with_the_policy_and_the_limit_that_refused_it() {
    let mut lab = Lab::new(config());
    lab.run(TakeEvents {
        drops: [
            DropReason::Class,
            DropReason::Limited,
            DropReason::Limited,
            DropReason::Banned,
        ]
        .map(|reason| dropped_at(clock::now(), reason))
        .into(),
        has_bans: false,
    });
    let reported = |address: &str| {
        let check = lab.checked(address);
        let drops = check.last_drops.into_iter();
        let reported = drops.map(|drops| {
            let What::Drop(drop) = drops.last.what else {
                panic!("{drops:?}");
            };
            (drop.reason, drop.policy, drop.limit.is_some(), drops.count)
        });
        reported.collect::<Vec<_>>()
    };
    let expected = [
        ("banned".to_owned(), None, false, 1),
        ("limited".to_owned(), Some("default".to_owned()), true, 2),
        ("class".to_owned(), Some("default".to_owned()), false, 1),
    ];
    assert_eq!(
        reported("192.0.2.1"),
        expected,
        "the last one first, those that are alike together"
    );
    assert_eq!(reported("192.0.2.2"), []);
}

#[test]
fn a_drop_from_before_the_limits_in_force_is_reported_without_a_limit() {
    let mut lab = Lab::new(config());
    let before = clock::now();
    lab.limit(None, 7).unwrap();
    assert_eq!(limits(&mut lab, [before, clock::now()]), [None, Some(7)]);
}

/// Another daemon may have judged it by other limits.
#[test]
fn a_drop_from_before_the_start_is_reported_without_a_limit() {
    let before = clock::now();
    let mut lab = Lab::new(config());
    let limits = limits(&mut lab, [before, clock::now()]);
    assert_eq!(limits.map(|limit| limit.is_some()), [false, true]);
}

/// Returns the amounts of the limits that are reported for drops at these times.
fn limits(lab: &mut Lab, times: [Instant; 2]) -> [Option<u64>; 2] {
    let drops = times.map(|at| dropped_at(at, DropReason::Limited)).into();
    lab.run(TakeEvents {
        drops,
        has_bans: false,
    });
    let kept = lab.events();
    let limits = kept.iter().filter_map(|event| {
        let What::Drop(drop) = &event.what else {
            return None;
        };
        Some(drop.limit.as_ref().map(LimitSpec::amount))
    });
    limits.collect::<Vec<_>>().try_into().unwrap()
}

#[test]
fn a_long_list_of_bans_is_one_event() {
    let mut lab = Lab::new(config());
    let bans = |count: u32, until| -> Vec<Edit> {
        let address = |number| std::net::Ipv4Addr::from(0xc000_0200 + number).to_string();
        (0..count)
            .map(|number| ban(&address(number), Origin::list("drop"), until))
            .collect()
    };
    let later = clock::after(Duration::from_hours(1));
    lab.edit(&bans(100, later));
    assert_eq!(lab.events().len(), 100);
    lab.edit(&bans(101, later));
    let kept = lab.events();
    let expected = What::Bans {
        change: BanChange::Added,
        count: 101,
        origin: Origin::list("drop"),
        by: Some("test".into()),
    };
    assert_eq!(
        kept[100..]
            .iter()
            .map(|event| &event.what)
            .collect::<Vec<_>>(),
        [&expected]
    );
}

/// A packet of 192.0.2.1 that was dropped, where by a limit, by the first of its policy.
fn dropped_at(at: Instant, reason: DropReason) -> DropEvent {
    let source = std::net::Ipv4Addr::new(192, 0, 2, 1);
    DropEvent {
        at_ns: at.as_nanos(),
        source: source.to_ipv6_mapped().octets(),
        interface: 0,
        family: Family::Ipv4 as u8,
        reason: reason as u8,
        limit: 0,
        reserved: 0,
        frame_bytes: 0,
        link_layer: 0,
        front: [0; 128],
    }
}

/// Checks the rules that cover 192.0.2.1. `+` marks the deciding one.
fn check(lab: &Lab, expected: &[&str]) {
    let check = lab.controller.check(IpAddr::from([192, 0, 2, 1])).unwrap();
    let reported = check.covering.into_iter().map(|covering| {
        let decides = if covering.decides { "+" } else { "" };
        let entry = match covering.entry {
            CoveringEntry::Allow(allow) => format!("allow {}", allow.prefix),
            CoveringEntry::Ban(ban) => format!("ban {}", ban.prefix),
            CoveringEntry::Policy { policy, .. } => format!("policy {policy}"),
        };
        format!("{decides}{entry}")
    });
    assert_eq!(reported.collect::<Vec<_>>(), expected);
}
