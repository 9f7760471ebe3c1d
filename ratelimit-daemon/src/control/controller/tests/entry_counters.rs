//! Each entry has the packets that matched it, and no entry those of another.

use std::ops::Range;

use ratelimit_common::layout::Counter;
use ratelimit_core::api::EntryCounter;

use super::*;
use crate::control::{enforcement::entry_counters::EntryCounters, queries::all_bans};

#[test]
fn a_change_that_fails_leaves_what_was_counted() {
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.1"], None).unwrap();
    lab.meet("192.0.2.1", 7);
    let slots = lab.owned();
    lab.leave_room(0);
    assert!(lab.ban(&["192.0.2.2"], None).is_err());
    assert_eq!(lab.owned(), slots, "who did not come has no slot");
    assert_eq!(lab.packets_of("192.0.2.1"), Some(7));
    lab.restart();
    assert_eq!(lab.packets_of("192.0.2.1"), Some(7));
}

#[test]
fn a_slot_is_empty_when_somebody_gets_it() {
    let mut lab = Lab::new(config());
    let dirt = Counter {
        packets: 9,
        bytes: 540,
    };
    for slot in 0..=u16::MAX {
        lab.tables_mut().counters.set(slot, dirt).unwrap();
    }
    lab.ban(&["192.0.2.1"], None).unwrap();
    assert_eq!(lab.packets_of("192.0.2.1"), Some(0));
}

#[test]
fn a_slot_is_nobodys_when_its_ban_is_gone_and_free_when_it_is_needed() {
    let mut lab = Lab::new(config());
    // All but two of 258 slots are for lists.
    lab.leave_free(1000..1258);
    lab.ban(&["192.0.2.1", "192.0.2.2", "192.0.2.3"], None)
        .unwrap();
    assert_eq!(lab.packets_of("192.0.2.3"), None);
    let slot = lab.meet("192.0.2.1", 7);
    lab.edit(&[Edit::Ban(prefix("192.0.2.1"), Origin::Manual, None)]);
    assert_eq!(lab.owner_of(slot), 0);
    lab.ban(&["192.0.2.4"], None).unwrap();
    assert_eq!(
        lab.packets_of("192.0.2.4"),
        None,
        "packets may be under way to it"
    );
    lab.tick();
    lab.ban(&["192.0.2.5"], None).unwrap();
    assert_eq!(lab.packets_of("192.0.2.5"), Some(0));
}

#[test]
fn what_nobody_intends_at_a_start_has_no_slot() {
    const OTHER: u16 = 1000;
    let mut lab = Lab::new(config());
    lab.ban(&["192.0.2.2"], None).unwrap();
    lab.meet("192.0.2.2", 8);
    let before = lab.owned();
    lab.tables_mut().counters.set_owner(OTHER, 12_345).unwrap();
    lab.restart();
    assert_eq!((lab.owner_of(OTHER), lab.owned()), (0, before));
    assert_eq!(lab.packets_of("192.0.2.2"), Some(8));
}

#[test]
fn a_ban_that_finds_no_slot_has_no_figures() {
    let mut lab = Lab::new(config());
    lab.leave_free(0..0);
    lab.ban(&["192.0.2.1"], None).unwrap();
    assert!(lab.is_banned("192.0.2.1"));
    assert_eq!(lab.packets_of("192.0.2.1"), None);
    let ban = all_bans(&lab.controller).pop().unwrap();
    let json = serde_json::to_value(&ban).unwrap();
    assert_eq!(
        (json.get("packets"), ban.counter),
        (None, EntryCounter::default())
    );
}

impl Lab {
    /// Has others own all slots but these.
    fn leave_free(&mut self, free: Range<u16>) {
        let others = (1..=u16::MAX).filter(|slot| !free.contains(slot));
        for slot in others {
            let counters = &mut self.tables_mut().counters;
            counters.set_owner(slot, slot.into()).unwrap();
        }
        let state = &mut self.state;
        state.entry_counters = EntryCounters::adopt(state.enforcer.datapath_mut());
    }

    /// Has packets meet the ban of an address, and answers its slot.
    fn meet(&mut self, address: &str, packets: u64) -> u16 {
        let slot = self.entries()[&prefix(address)].slots().ban();
        assert_ne!(slot, 0);
        let count = Counter {
            packets,
            bytes: 60 * packets,
        };
        self.tables_mut().counters.set(slot, count).unwrap();
        slot
    }

    fn packets_of(&self, address: &str) -> Option<u64> {
        let bans = all_bans(&self.controller);
        let ban = bans.iter().find(|ban| ban.prefix == prefix(address));
        ban.expect("it is banned").counter.packets
    }

    fn owner_of(&self, slot: u16) -> u64 {
        let owners = self.tables().counters.owners().unwrap();
        owners.get(&slot).copied().unwrap_or_default()
    }

    /// Returns the slots with an owner.
    fn owned(&self) -> Vec<u16> {
        let owners = self.tables().counters.owners().unwrap();
        owners.into_keys().collect()
    }
}
