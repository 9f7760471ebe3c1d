//! Bans of several origins for one prefix.

use ratelimit_core::{api::RemainingBan, intent::FOREVER};

use super::*;
use crate::clock;

#[test]
fn the_longest_ban_of_a_prefix_is_enforced_whoever_it_is_of() {
    let mut lab = Lab::new(config());
    let (short, long) = (
        clock::after(Duration::from_mins(1)),
        clock::after(Duration::from_hours(1)),
    );
    lab.edit(&[
        ban("192.0.2.1", Origin::Automatic, short),
        ban("192.0.2.1", Origin::Crowdsec, long),
        ban("192.0.2.1", Origin::list("a"), short),
    ]);
    assert_eq!(lab.until("192.0.2.1"), Some(long));
    lab.restart();
    assert_eq!(lab.listed_bans().len(), 3);
    lab.edit(&[Edit::Ban(prefix("192.0.2.1"), Origin::Crowdsec, None)]);
    assert_eq!(lab.until("192.0.2.1"), Some(short));
}

#[test]
fn unban_ends_all_bans_of_a_prefix_but_those_of_lists_and_names_these() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    let later = clock::after(Duration::from_mins(1));
    lab.edit(&[
        ban("192.0.2.1", Origin::Automatic, later),
        ban("192.0.2.1", Origin::cluster("edge-2"), later),
        ban("192.0.2.1", Origin::list("spamhaus"), later),
        ban("192.0.2.2", Origin::list("spamhaus"), later),
        ban("192.0.2.3", Origin::Crowdsec, later),
    ]);
    let named = ["192.0.2.1", "192.0.2.2", "192.0.2.3", "192.0.2.4"];
    let changed = lab.unban(&named).unwrap();
    assert_eq!(changed.removed, 2);
    assert_eq!(changed.absent, [named[1], named[3]].map(prefix));
    let held = |text| RemainingBan {
        prefix: prefix(text),
        banned: prefix(text),
        origin: Origin::list("spamhaus"),
    };
    assert_eq!(changed.held, [held("192.0.2.1"), held("192.0.2.2")]);
    assert_eq!(lab.until("192.0.2.1"), Some(later));
    assert_eq!(lab.until("192.0.2.3"), None);
    let left = lab.listed_bans();
    assert!(
        left.iter()
            .all(|ban| ban.origin == Origin::list("spamhaus"))
    );
}

#[test]
fn unban_tells_the_bans_of_wider_prefixes_that_hold_on() {
    let mut lab = Lab::new(config());
    let later = clock::after(Duration::from_mins(1));
    lab.ban(&["192.0.2.0/24", "198.51.100.0/24"], None).unwrap();
    lab.ban(&["192.0.2.1", "198.51.100.1", "192.0.2.10"], None)
        .unwrap();
    lab.edit(&[ban("192.0.0.0/16", Origin::Automatic, later)]);
    let named = ["192.0.2.1", "198.51.100.0/24", "198.51.100.1", "192.0.2.10"];
    let changed = lab.unban(&named).unwrap();
    let held = |banned: &str, origin| RemainingBan {
        prefix: prefix("192.0.2.1"),
        banned: prefix(banned),
        origin,
    };
    // Bans that end together are not in force, nor is any ban of an allowed prefix.
    let expected = [
        held("192.0.0.0/16", Origin::Automatic),
        held("192.0.2.0/24", Origin::Manual),
    ];
    assert_eq!((changed.removed, &changed.held[..]), (4, &expected[..]));
    assert!(lab.is_banned("192.0.2.0/24"));
}

#[test]
fn bans_of_one_origin_end_without_those_of_another() {
    let mut lab = Lab::new(config());
    let soon = clock::after(Duration::from_millis(5));
    lab.edit(&[
        ban("192.0.2.1", Origin::Automatic, soon),
        ban("192.0.2.1", Origin::Manual, FOREVER),
    ]);
    thread::sleep(Duration::from_millis(10));
    lab.tick();
    let bans = lab.listed_bans();
    let origins: Vec<&Origin> = bans.iter().map(|ban| &ban.origin).collect();
    assert_eq!(origins, [&Origin::Manual]);
    assert_eq!(lab.until("192.0.2.1"), Some(FOREVER));
}

#[test]
fn check_tells_of_several_bans_the_one_that_holds_longest() {
    let mut lab = Lab::new(config());
    let long = clock::after(Duration::from_hours(1));
    lab.ban(&["192.0.2.1"], Some(60.0)).unwrap();
    lab.edit(&[ban("192.0.2.0/24", Origin::list("a"), long)]);
    let check = lab.checked("192.0.2.1");
    let ban = check.ban.unwrap();
    assert_eq!(
        (ban.prefix, ban.origin),
        (prefix("192.0.2.0/24"), Origin::list("a"))
    );
}
