//! The lists are full.

use ratelimit_core::{
    intent::{
        FOREVER,
        list::{List, ListEntry},
    },
    lists::{Action, ReasonId, Reasons},
};

use ratelimit_common::layout::LISTED_MAX;

use super::*;
use crate::clock;

#[test]
fn the_automatic_ban_that_ends_soonest_gives_way_to_a_new_one() {
    let mut lab = full_of(&[
        (Origin::Automatic, 50),
        (Origin::Crowdsec, 30),
        (Origin::cluster("edge-2"), 40),
        (Origin::Manual, 10),
        (Origin::list("a"), 20),
    ]);
    lab.edit(&[automatic("198.51.100.1", 60)]);
    lab.check_bans("198.51.100.1 192.0.2.0 192.0.2.2 192.0.2.3 192.0.2.4");
    lab.edit(&[automatic("198.51.100.2", 60)]);
    lab.check_bans("198.51.100.1 198.51.100.2 192.0.2.0 192.0.2.3 192.0.2.4");
    assert_eq!(lab.state.noted.filling.evicted, 2);
    lab.restart();
}

#[test]
fn the_bans_of_a_flood_do_not_evict_each_other() {
    let mut lab = full_of(&[(Origin::Automatic, 50)]);
    let newcomer = automatic("198.51.100.1", 60);
    let refused = lab.state.apply([newcomer.clone()], Cause::Origin);
    assert!(refused.unwrap_err().error.contains("is full"));
    lab.check_bans("192.0.2.0");
    let row = lab
        .state
        .intent
        .ban_of(prefix("192.0.2.0"), &Origin::Automatic);
    let mut row = row.unwrap().clone();
    row.since -= SignedDuration::from_mins(51);
    let served = Edit::Ban(prefix("192.0.2.0"), Origin::Automatic, Some(row));
    lab.edit(&[served]);
    lab.edit(&[newcomer]);
    lab.check_bans("198.51.100.1");
}

#[test]
fn manual_bans_find_a_tenth_free_and_then_automatic_bans_give_way() {
    let mut lab = full_of(&[(Origin::Automatic, 50), (Origin::Manual, 30)]);
    // 18 of 20 entries are for all bans: 2 are left.
    for number in 1..=2 {
        lab.ban(&[&format!("198.51.100.{number}")], None).unwrap();
        assert_eq!(lab.state.noted.filling.evicted, 0);
    }
    lab.ban(&["198.51.100.3"], None).unwrap();
    assert_eq!(lab.state.noted.filling.evicted, 1);
    lab.check_bans("198.51.100.1 198.51.100.2 198.51.100.3 192.0.2.1");
    let refused = lab.ban(&["198.51.100.4"], None).unwrap_err();
    assert!(
        refused
            .error
            .starts_with("the list of IPv4 is full: it holds 20 of 20 entries"),
        "{}",
        refused.error
    );
    assert!(refused.hint.is_some());
    lab.check_bans("198.51.100.1 198.51.100.2 198.51.100.3 192.0.2.1");
}

#[test]
fn an_automatic_ban_takes_nothing_of_what_is_kept_for_those_by_hand() {
    let mut lab = full_of(&[(Origin::Manual, 30), (Origin::list("a"), 20)]);
    let refused = lab
        .state
        .apply(&[automatic("198.51.100.1", 60)], Cause::Origin)
        .unwrap_err();
    assert!(
        refused
            .error
            .contains("there is no room for 1 of the new ones"),
        "{}",
        refused.error
    );
    lab.check_bans("192.0.2.0 192.0.2.1");
    // A prefix that has an entry needs no other.
    lab.edit(&[automatic("192.0.2.0", 60)]);
}

#[test]
fn a_list_counts_with_each_of_its_entries() {
    let mut lab = full_of(&[(Origin::Automatic, 50), (Origin::Manual, 30)]);
    let two = list(&["198.51.100.1", "198.51.100.2"]);
    let refused = lab.state.apply(&[two], Cause::Origin).unwrap_err();
    assert!(
        refused
            .error
            .contains("there is no room for 1 of the new ones"),
        "{}",
        refused.error
    );
    lab.edit(&[list(&["198.51.100.1"])]);
    lab.check_bans("192.0.2.1");
    assert_eq!(lab.entries().len(), 18);
}

#[test]
fn a_list_that_takes_the_place_of_another_may_fill_what_is_kept_for_a_moment() {
    let mut lab = Lab::new(config());
    let entries = lab.entries().len();
    let [first, second] = ["192.0.2", "198.51.100"].map(|front| -> Vec<String> {
        let hosts = 1..=(20 - entries) / 2;
        hosts.map(|host| format!("{front}.{host}")).collect()
    });
    let [first, second] = [&first, &second].map(|texts| texts.iter().map(String::as_str).collect());
    let (first, second): (Vec<&str>, Vec<&str>) = (first, second);
    lab.set_capacity(20);
    lab.edit(&[list(&first)]);
    let both: Vec<Prefix> = first
        .iter()
        .chain(&second)
        .map(|text| prefix(text))
        .collect();
    let Edit::List(name, replaced, _) = list(&second) else {
        unreachable!("it is a list");
    };
    lab.edit(&[Edit::List(name, replaced, both.into())]);
    assert_eq!(lab.entries().len(), entries + second.len());
    assert!(lab.is_banned(second[0]) && !lab.is_banned(first[0]));
}

#[test]
fn a_list_that_is_nearly_full_is_reported() {
    let mut lab = full_of(&[(Origin::Manual, 30)]);
    lab.tick();
    assert_eq!(lab.state.noted.filling.nearly_full, [true, false]);
    lab.set_capacity(1000);
    lab.tick();
    assert_eq!(lab.state.noted.filling.nearly_full, [false, false]);
}

#[test]
fn a_map_that_is_full_is_reported_with_its_size_and_what_to_do() {
    let mut lab = Lab::new(config());
    lab.leave_room(0);
    let refused = lab.ban(&["192.0.2.1"], None).unwrap_err();
    assert_eq!(
        refused.error,
        format!("the map LISTS_V4 is full: it holds {LISTED_MAX} entries")
    );
    assert!(refused.hint.unwrap().contains("rlctl status"));
}

/// Returns a lab whose lists are full except for the reserve: with bans of 192.0.2.0 and following,
/// each with an origin and minutes.
fn full_of(bans: &[(Origin, u64)]) -> Lab {
    let mut config = config();
    // 20 entries; as many of them are allowed addresses as it takes.
    let others = 18 - bans.len() - 1;
    config.allow = (0..others)
        .map(|number| prefix(&format!("203.0.113.{number}")))
        .collect();
    let mut lab = Lab::new(config);
    let edits = bans.iter().enumerate().map(|(number, (origin, minutes))| {
        ban(&format!("192.0.2.{number}"), origin.clone(), *minutes)
    });
    lab.edit(&edits.collect::<Vec<_>>());
    assert_eq!(lab.entries().len(), 18);
    lab.set_capacity(20);
    lab
}

fn automatic(text: &str, minutes: u64) -> Edit {
    ban(text, Origin::Automatic, minutes)
}

fn ban(text: &str, origin: Origin, minutes: u64) -> Edit {
    let until = if matches!(origin, Origin::List(_)) {
        FOREVER
    } else {
        clock::after(Duration::from_mins(minutes))
    };
    super::ban(text, origin, until)
}

impl Lab {
    /// Makes the lists of each family as large as this.
    fn set_capacity(&self, entries: u32) {
        let maps = ["LISTS_V4", "LISTS_V6"];
        self.switches().capacity = maps.map(|map| (map, entries)).into();
    }

    fn check_bans(&self, expected: &str) {
        let expected: BTreeSet<Prefix> = expected.split(' ').map(prefix).collect();
        let found = self.listed_bans();
        let found: BTreeSet<Prefix> = found.iter().map(|ban| ban.prefix).collect();
        assert_eq!(found, expected);
        for prefix in expected {
            assert!(self.is_banned(&prefix.to_string()), "{prefix}");
        }
    }
}

/// A list of these prefixes, of which there was none before.
fn list(prefixes: &[&str]) -> Edit {
    let entries = prefixes.iter().map(|text| ListEntry {
        prefix: prefix(text),
        until: FOREVER,
        reason: ReasonId::NONE,
    });
    let list = List::new(Action::Ban, None, clock::wall(), "test".into());
    let list = list.with_entries(entries.collect(), Reasons::default());
    let touched = prefixes.iter().map(|text| prefix(text)).collect();
    Edit::List("bad".into(), Some(list.into()), touched)
}

#[test]
fn limits_that_move_to_a_larger_region_take_what_was_used_along() {
    let mut config = config();
    config.source.store = StateStore::Compact;
    config.source.capacity = 100_000;
    let mut lab = Lab::with_sets(config.clone(), Some(15_000));
    config.default_policy.limits = vec![limit_by(10, 1, Algorithm::SlidingWindow)];
    lab.switches().writes.clear();
    lab.replace(config).unwrap();
    let writes = lab.take_writes();
    let is_copied = |write: &Write| matches!(write, Write::CopiedRegion(..));
    let place = writes.iter().rposition(is_copied).unwrap();
    let Write::CopiedRegion(from, to) = writes[place] else {
        unreachable!("it was just matched");
    };
    assert!(from.sets() < to.sets(), "{from:?} {to:?}");
    assert!(
        matches!(writes[place + 1], Write::Settings(_)),
        "nothing comes between the copy and the word"
    );
    let cleared = writes.iter().rposition(|it| *it == Write::Region(to));
    assert!(cleared.unwrap() < place);
}
