use super::*;
use crate::{
    config::{Arguments, from_command_line},
    intent::FOREVER,
};

#[test]
fn a_share_is_met_by_exactly_as_many_sources_as_it_takes() {
    let wide = "198.51.100.0/24";
    // 64 of 256.
    for (percent, needed) in [(25, 64), (26, 67), (100, 256), (1, 3)] {
        check(percent, wide, &addresses(needed, 7), Some(7));
        check(percent, wide, &addresses(needed - 1, 7), None);
    }
}

#[test]
fn a_wider_ban_counts_for_all_sources_it_covers_and_none_counts_twice() {
    let wide = "198.51.100.0/24";
    let half = ban("198.51.100.0/25", 7);
    check(50, wide, &[half], Some(7));
    check(51, wide, &[half], None);
    // All addresses are in that half.
    let shorter = addresses(100, 5);
    check(51, wide, &[&shorter[1..], &[half]].concat(), None);
    let mut bans = addresses(100, 9);
    bans.push(half);
    check(50, wide, &bans, Some(7));
    check(51, wide, &bans, None);
    // The first 100 last longer than the rest of the half.
    check(39, wide, &bans, Some(9));
    check(40, wide, &bans, Some(7));
    bans.push(ban("198.51.100.200", 3));
    check(50, wide, &bans, Some(7));
    check(51, wide, &bans, None);
    bans.extend([ban("198.51.100.128/26", 5), ban("198.51.100.0/26", 20)]);
    check(75, wide, &bans, Some(5));
    check(25, wide, &bans, Some(20));
}

#[test]
fn a_fold_lasts_as_long_as_the_share_is_met() {
    let ends: Vec<_> = (0..10u8)
        .map(|last| ban(&format!("198.51.100.{last}"), u64::from(last) + 1))
        .collect();
    // 3 of 256: those that end last are at 10, 9 and 8.
    check(1, "198.51.100.0/24", &ends, Some(8));
    let mut longer = ends.clone();
    longer[0].1 = FOREVER;
    check(1, "198.51.100.0/24", &longer, Some(9));
    // The same address by another origin.
    longer.push(ban("198.51.100.8", 99));
    check(1, "198.51.100.0/24", &longer, Some(10));
}

#[test]
fn several_bans_inside_a_source_count_once() {
    let inside: Vec<_> = (1..9u8)
        .map(|last| ban(&format!("2001:db8:0:7::{last}"), last.into()))
        .collect();
    // 3 of 256 networks.
    let mut bans = inside;
    bans.push(ban("2001:db8:0:8::/64", 5));
    check(1, "2001:db8::/56", &bans, None);
    bans.push(ban("2001:db8:0:9::1", 6));
    check(1, "2001:db8::/56", &bans, Some(5));
    check(2, "2001:db8::/56", &[ban("2001:db8::/61", 4)], Some(4));
    check(2, "2001:db8::/56", &[ban("2001:db8::/62", 4)], None);
}

#[test]
fn of_addresses_as_sources_any_number_can_be_counted() {
    let fold = Fold {
        percent: 100,
        prefixes: [24, 48],
        sources: [32, 128],
    };
    let halves = ["2001:db8::/49", "2001:db8:0:8000::/49"].map(|it| ban(it, 3));
    let wide = prefix("2001:db8::/48");
    assert_eq!(fold.until(wide, halves.into_iter()), Some(instant(3)));
    assert_eq!(fold.until(wide, halves[..1].iter().copied()), None);
}

#[test]
fn only_what_is_wider_than_a_source_is_folded() {
    let around = |text| fold(50).around(prefix(text)).map(|it| it.to_string());
    assert_eq!(around("192.0.2.77").as_deref(), Some("192.0.2.0/24"));
    assert_eq!(around("192.0.2.0/24").as_deref(), Some("192.0.2.0/24"));
    assert_eq!(around("192.0.2.0/23"), None);
    assert_eq!(around("2001:db8:0:7::9").as_deref(), Some("2001:db8::/56"));
    let of_wide_sources = Fold {
        sources: [24, 64],
        ..fold(50)
    };
    assert_eq!(of_wide_sources.around(prefix("192.0.2.77")), None);
}

#[test]
fn bans_of_lists_folds_and_the_prefix_itself_are_no_members() {
    let mut intent = intent();
    let wide = "198.51.100.0/24";
    for (prefix, origin) in [
        (wide, Origin::Manual),
        (wide, Origin::Folded),
        ("198.51.100.0/25", Origin::Automatic),
        ("198.51.100.1", Origin::program("sshd")),
        ("198.51.100.2", Origin::list("a")),
        ("198.51.101.0", Origin::Manual),
    ] {
        put(&mut intent, prefix, origin, Some(7));
    }
    let members: Vec<Prefix> = members(&intent, prefix(wide)).map(|(it, _)| it).collect();
    assert_eq!(members, ["198.51.100.0/25", "198.51.100.1"].map(prefix));
}

#[test]
fn a_change_touches_where_bans_come_and_where_one_ends_early() {
    let (first, other) = ("198.51.100.1", "198.51.100.2");
    let wide = prefix("198.51.100.0/24");
    let mut intent = intent();
    let mut edit = |text, origin, until| {
        let reverse = put(&mut intent, text, origin, until);
        let touched = Touched::by(&[reverse], &intent, instant(1));
        assert!(!touched.all);
        (
            touched.grown.contains(&wide),
            touched.shrunk.contains(&wide),
        )
    };
    assert_eq!(edit(first, Origin::Manual, Some(7)), (true, false));
    assert_eq!(edit(first, Origin::Manual, Some(7)), (false, false));
    assert_eq!(edit(first, Origin::Manual, Some(9)), (true, false));
    // Another origin bans it as long.
    assert_eq!(edit(first, Origin::Automatic, Some(9)), (true, false));
    assert_eq!(edit(first, Origin::Manual, None), (false, false));
    assert_eq!(edit(first, Origin::Automatic, Some(8)), (false, true));
    assert_eq!(edit(first, Origin::Automatic, None), (false, true));
    assert_eq!(edit(first, Origin::Automatic, None), (false, false));
    // As good as expired.
    assert_eq!(edit(first, Origin::Crowdsec, Some(3)), (true, false));
    assert_eq!(edit(first, Origin::Crowdsec, None), (false, false));
    assert_eq!(edit(other, Origin::list("a"), Some(7)), (false, false));
    assert_eq!(edit(other, Origin::list("a"), None), (false, false));
    assert_eq!(
        edit("198.51.100.0/24", Origin::Folded, Some(7)),
        (false, false)
    );
    assert_eq!(edit("198.51.100.0/24", Origin::Folded, None), (false, true));
    assert_eq!(
        edit("198.51.100.0/24", Origin::Manual, Some(7)),
        (false, false)
    );
}

fn check(percent: u8, wide: &str, bans: &[(Prefix, Instant)], expected: Option<u64>) {
    let until = fold(percent).until(prefix(wide), bans.iter().copied());
    assert_eq!(until, expected.map(instant), "{percent} % of {wide}");
    let until = fold(percent).until(prefix(wide), bans.iter().rev().copied());
    assert_eq!(until, expected.map(instant), "backwards");
}

fn fold(percent: u8) -> Fold {
    Fold {
        percent,
        prefixes: [24, 56],
        sources: [32, 64],
    }
}

fn intent() -> Intent {
    let arguments = Arguments {
        interfaces: vec!["eth0".to_owned()],
        packets: Some(1000),
        per: Some("1s".to_owned()),
        ..Arguments::default()
    };
    let mut config = from_command_line(&arguments).unwrap();
    config.fold = Some(fold(50));
    Intent::new(config)
}

fn put(intent: &mut Intent, text: &str, origin: Origin, until: Option<u64>) -> Edit {
    let row = until.map(|until| EntryRow {
        until: instant(until),
        since: jiff::Timestamp::UNIX_EPOCH,
        reason: None,
        author: "test".into(),
    });
    intent.edit(Edit::Ban(prefix(text), origin, row))
}

/// Bans of so many addresses.
fn addresses(count: u32, until: u64) -> Vec<(Prefix, Instant)> {
    let bans = (0..count).map(|last| ban(&format!("198.51.100.{last}"), until));
    bans.collect()
}

fn ban(text: &str, until: u64) -> (Prefix, Instant) {
    (prefix(text), instant(until))
}

fn instant(seconds: u64) -> Instant {
    Instant::from_nanos(seconds * 1_000_000_000)
}

fn prefix(text: &str) -> Prefix {
    text.parse().unwrap()
}
