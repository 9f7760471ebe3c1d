//! Another process changes the tables.

use std::time::Duration;

use ratelimit_common::{
    BanBudgets, Policy, Settings, generation::ByGeneration, layout::POLICIES_MAX,
    list::lookup_cache::STATE, new_sources::Budget,
};
use ratelimit_core::compile::Switched;

use super::*;
use crate::control::{Kind, Reconciliation, enforcement::prefix_filters::tests::filter_words};

#[test]
fn an_entry_that_somebody_took_out_is_put_back() {
    check(Kind::Entry, 1, |tables| remove(tables, "192.0.2.1"));
}

#[test]
fn an_entry_that_somebody_put_in_or_changed_is_put_right() {
    check(Kind::Entry, 2, |tables| {
        allow(tables, "192.0.2.1");
        allow(tables, "198.51.100.1");
    });
}

#[test]
fn a_policy_that_somebody_emptied_or_changed_is_put_right() {
    check(Kind::Policy, 2, |tables| {
        let other = Policy::new(&[], 9, true).unwrap();
        let held = tables.policies.all().unwrap();
        tables.set_policy(held[0].0, &Policy::default()).unwrap();
        tables.set_policy(held[1].0, &other).unwrap();
    });
}

#[test]
fn a_policy_that_nothing_names_is_taken_away_when_everything_is_compared() {
    let mut lab = Lab::new(config());
    let other = Policy::new(&[], 9, true).unwrap();
    lab.tables_mut().set_policy(77, &other).unwrap();
    lab.reconcile();
    assert!(!lab.policies().contains_key(&77));
    let repaired = lab.reconciliation().repaired;
    assert_eq!(repaired.0[Kind::Policy as usize], 1);
}

#[test]
fn a_policy_that_nothing_names_is_taken_away_when_its_turn_comes() {
    let mut lab = Lab::new(config());
    for index in [77, POLICIES_MAX - 1] {
        let other = Policy::new(&[], 9, true).unwrap();
        lab.tables_mut().set_policy(index, &other).unwrap();
        (0..POLICIES_MAX / 512).for_each(|_| lab.tick());
        assert!(!lab.policies().contains_key(&index));
    }
    let repaired = lab.reconciliation().repaired;
    assert_eq!((repaired.0[Kind::Policy as usize], repaired.sum()), (2, 2));
}

#[test]
fn settings_that_somebody_changed_are_put_right() {
    check(Kind::Settings, 1, |tables| {
        tables.set_settings(Settings::new(5, true)).unwrap();
    });
}

#[test]
fn budgets_that_somebody_changed_are_put_right() {
    check(Kind::Settings, 2, |tables| {
        let none = BanBudgets::default();
        tables.policy_bans.set_budgets(none).unwrap();
        let budget = Budget::new(7.try_into().unwrap(), Duration::from_secs(1), 1).unwrap();
        let switched = tables.switched().unwrap();
        let switched = switched.map(|tables| Switched {
            new_sources: budget,
            ..tables.clone()
        });
        tables.set_switched(&switched).unwrap();
    });
}

#[test]
fn aggregates_that_somebody_took_out_are_put_back() {
    let mut config = config();
    config.aggregate.ipv4 = vec![ratelimit_core::config::LevelConfig {
        prefix: 24,
        limits: vec![limit(5)],
    }];
    check_of(config, Kind::Aggregate, 1, |tables| {
        tables.set_switched(&ByGeneration::default()).unwrap();
    });
}

#[test]
fn where_nothing_is_different_nothing_is_written() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.take_writes();
    lab.tick();
    lab.reconcile();
    assert_eq!(lab.take_writes(), []);
    assert_eq!(lab.reconciliation().repaired.sum(), 0);
}

#[test]
fn what_cannot_be_put_right_is_reported_and_tried_again() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    remove(lab.tables_mut(), "192.0.2.1");
    lab.leave_room(0);
    lab.tick();
    assert_eq!(lab.reconciliation().missing.0[Kind::Entry as usize], 1);
    lab.make_room();
    lab.tick();
    assert_eq!(lab.reconciliation().missing.sum(), 0);
    assert!(lab.is_banned("192.0.2.1"));
}

#[test]
fn of_a_long_list_what_is_taken_out_or_put_in_is_found_in_the_next_second() {
    let mut lab = long();
    check_long(&mut lab, 1, |tables| remove(tables, "10.0.39.7"));
    check_long(&mut lab, 1, |tables| allow(tables, "2001:db8::1"));
}

#[test]
fn of_a_long_list_what_is_changed_in_place_or_hidden_is_found_when_its_turn_comes() {
    let mut lab = long();
    let turns = LONG.div_ceil(8192);
    check_long(&mut lab, turns, |tables| allow(tables, "10.0.39.7"));
    check_long(&mut lab, turns, |tables| {
        remove(tables, "10.0.39.7");
        allow(tables, "10.1.0.1");
    });
    let words = lab.filter_words().into_keys();
    let mut of_ipv4 = words.filter(|(family, _)| *family == IpFamily::V4);
    let (_, last) = of_ipv4.next_back().unwrap();
    check_long(&mut lab, turns, |tables| {
        tables.lists.set_filter_word(IpFamily::V4, last, 0);
    });
}

#[test]
fn a_kernel_that_does_not_count_tells_what_is_put_in_when_its_turn_comes() {
    let mut lab = long();
    lab.switches().hides_memory = true;
    let turns = LONG.div_ceil(8192);
    check_long(&mut lab, turns, |tables| allow(tables, "10.1.0.1"));
}

#[test]
fn bans_come_between_the_parts_of_a_comparison_and_are_no_difference() {
    for (bans, parts) in [(1_000, 1), (LONG, 3)] {
        let mut lab = banned(bans);
        lab.run(Tick);
        let mut between = 0;
        while lab.run(CompareOn) {
            between += 1;
            lab.ban(&[&format!("10.2.0.{between}")], None).unwrap();
        }
        assert!(between >= parts, "{between} of {parts} for {bans} bans");
        assert_eq!(lab.reconciliation().repaired.sum(), 0);
    }
}

/// Bans of a list that is not compared whole each second.
const LONG: usize = 10_000;

fn long() -> Lab {
    banned(LONG)
}

fn banned(bans: usize) -> Lab {
    let mut lab = Lab::new(config());
    let address = |number: usize| format!("10.0.{}.{}", number / 256, number % 256);
    let addresses: Vec<String> = (0..bans).map(address).collect();
    let addresses: Vec<&str> = addresses.iter().map(String::as_str).collect();
    lab.ban(&addresses, None).unwrap();
    lab.tick();
    lab
}

/// Changes a long list. Within `seconds` it must be repaired.
fn check_long(lab: &mut Lab, seconds: usize, meddle: impl FnOnce(&mut Datapath)) {
    let tables = |lab: &Lab| (lab.held(), lab.filter_words());
    let before = tables(lab);
    meddle(lab.tables_mut());
    assert_ne!(tables(lab), before);
    (0..seconds).for_each(|_| lab.tick());
    assert_eq!(tables(lab), before);
    assert_eq!(lab.reconciliation().missing.sum(), 0);
}

fn check(kind: Kind, different: u64, meddle: impl FnOnce(&mut Datapath)) {
    check_of(config(), kind, different, meddle);
}

/// Changes the tables behind the controller's back: the next second they are as before.
fn check_of(config: Config, kind: Kind, different: u64, meddle: impl FnOnce(&mut Datapath)) {
    let mut lab = Lab::new(config);
    lab.ban(&["192.0.2.1"], None).unwrap();
    let tables = |lab: &Lab| {
        let tables = lab.tables();
        let budgets = tables.policy_bans.budgets().unwrap();
        (
            lab.held(),
            lab.policies(),
            lab.settings().in_generation(Generation::First),
            (budgets, tables.switched().unwrap()),
            lab.filter_words(),
        )
    };
    let before = tables(&lab);
    meddle(lab.tables_mut());
    assert_ne!(tables(&lab), before);
    lab.tick();
    assert_eq!(tables(&lab), before);
    let Reconciliation {
        intended,
        missing,
        repaired,
    } = lab.reconciliation();
    assert_eq!(
        (repaired.0[kind as usize], repaired.sum()),
        (different, different)
    );
    assert_eq!(missing.sum(), 0);
    assert_eq!(intended.0[Kind::Entry as usize], before.0.len() as u64);
}

fn remove(tables: &mut Datapath, text: &str) {
    tables.lists.remove(&[prefix(text)]).unwrap();
}

fn allow(tables: &mut Datapath, text: &str) {
    let entry = EntryByGeneration::both(ListEntry::new(true, None, None));
    tables.lists.set(&[(prefix(text), entry)]).unwrap();
}

impl Lab {
    /// The nonzero words of the prefix-length filters, except for the numbers of their states.
    fn filter_words(&self) -> BTreeMap<(IpFamily, u32), u64> {
        let mut words = filter_words(&self.memory);
        words.retain(|(_, index), _| *index != STATE);
        words
    }
}
