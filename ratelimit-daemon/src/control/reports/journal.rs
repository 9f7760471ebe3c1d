//! The stream of events: each gets a line in the log, is sent to followers, and stays in memory for
//! queries. `event_log.rs` stores changes on disk.
//!
//! Events caused by traffic are kept apart from those caused by users, and drops from both. A flood
//! causes a hundred drops per second and CPU, and many bans, which must not displace the changes of
//! an operator.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use ratelimit_core::api::{Cursor, Event, What};
use rustix::rand::{GetRandomFlags, getrandom};
use smart_default::SmartDefault;
use tokio::sync::broadcast;
use zerocopy::IntoBytes;

use super::{event_log, log_lines};
use crate::clock;

/// The most events of each kind.
const KEPT: usize = event_log::ROWS_MAX;
/// The number of events that a follower may lag behind before it loses some.
const BEHIND_MAX: usize = 4_096;

/// The events of this run of the daemon, and the changes of previous runs.
#[derive(SmartDefault)]
pub struct Journal {
    /// The position behind the last event.
    cursor: Cursor,
    /// The number of events, including those of previous runs.
    recorded: u64,
    /// The number of events that are on disk.
    written: u64,
    changes: Ring,
    of_traffic: Ring,
    drops: Ring,
    #[default(broadcast::Sender::new(BEHIND_MAX))]
    followers: broadcast::Sender<Arc<Event>>,
    /// Interfaces by slot.
    interfaces: BTreeMap<u32, String>,
}

/// Events in order, each with the total number of events up to it.
type Ring = VecDeque<(u64, Arc<Event>)>;

impl Journal {
    /// Continues the changes of previous runs, from the file with this identity.
    pub fn after(journal: u32, changes: Vec<Event>) -> Self {
        let last = changes.iter().map(|event| event.number).max().unwrap_or(0);
        let mut restored = Self {
            cursor: Cursor {
                journal,
                run: random(),
                first: last + 1,
                change: last,
                drop: 0,
            },
            ..Self::default()
        };
        for event in changes {
            restored.keep(Arc::new(event));
        }
        restored.set_written();
        restored
    }

    /// Records an event that happens now.
    pub fn record(&mut self, what: What) {
        self.record_at(clock::wall(), what);
    }

    /// Records an event that happened at `at`.
    pub fn record_at(&mut self, at: Timestamp, what: What) {
        log_lines::log(&what);
        let number = if what.is_drop() {
            &mut self.cursor.drop
        } else {
            &mut self.cursor.change
        };
        *number += 1;
        let event = Arc::new(Event {
            number: *number,
            cursor: Some(self.cursor),
            at,
            what,
        });
        self.keep(Arc::clone(&event));
        // There may be no followers.
        let _ = self.followers.send(event);
    }

    fn keep(&mut self, event: Arc<Event>) {
        let ring = if event.what.is_drop() {
            &mut self.drops
        } else if event.what.is_of_traffic() {
            &mut self.of_traffic
        } else {
            &mut self.changes
        };
        if ring.len() == KEPT {
            ring.pop_front();
        }
        self.recorded += 1;
        ring.push_back((self.recorded, event));
    }

    /// Returns the changes that are not on disk.
    pub fn unwritten(&self) -> Vec<Arc<Event>> {
        in_order([&self.changes, &self.of_traffic], self.written)
    }

    /// Marks all changes as written.
    pub const fn set_written(&mut self) {
        self.written = self.recorded;
    }

    /// Returns all events in order.
    pub fn kept(&self) -> Vec<Arc<Event>> {
        in_order([&self.changes, &self.of_traffic, &self.drops], 0)
    }

    /// Returns the position behind the last event.
    pub const fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Returns the last `count` events other than drops, in order.
    pub fn changes(&self, count: usize) -> Vec<Arc<Event>> {
        let mut changes = in_order([&self.changes, &self.of_traffic], 0);
        changes.split_off(changes.len().saturating_sub(count))
    }

    /// Returns the stream of future events.
    pub fn follow(&self) -> broadcast::Receiver<Arc<Event>> {
        self.followers.subscribe()
    }

    /// Returns the drops in order.
    pub fn drops(&self) -> impl Iterator<Item = &Event> {
        self.drops.iter().map(|(_, event)| event.as_ref())
    }

    /// Returns the name of the interface in a slot.
    pub fn interface(&self, slot: u32) -> String {
        self.interfaces.get(&slot).cloned().unwrap_or_default()
    }

    /// Returns the interfaces by slot.
    pub fn interfaces(&self) -> &BTreeMap<u32, String> {
        &self.interfaces
    }

    /// Records the slots of interfaces.
    pub fn name_interfaces(&mut self, names: impl IntoIterator<Item = (u32, String)>) {
        self.interfaces = names.into_iter().collect();
    }
}

/// Merges the events of `rings` after the first `recorded`.
fn in_order<const N: usize>(rings: [&Ring; N], recorded: u64) -> Vec<Arc<Event>> {
    let events = rings.into_iter().flatten();
    let mut events: Vec<_> = events.filter(|(number, _)| *number > recorded).collect();
    events.sort_unstable_by_key(|(number, _)| *number);
    let events = events.into_iter();
    events.map(|(_, event)| Arc::clone(event)).collect()
}

/// Returns a number unique to this run.
fn random() -> u64 {
    let mut number = 0_u64;
    // A call for a few bytes cannot fail once the kernel's generator is seeded.
    let _ = getrandom(number.as_mut_bytes(), GetRandomFlags::empty());
    number | 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_core::api::{Dropped, PacketRequest};

    #[test]
    fn neither_drops_nor_what_traffic_causes_pushes_out_changes() {
        let mut journal = Journal::default();
        journal.record(reloaded());
        for _ in 0..KEPT + 5 {
            journal.record(drop());
            journal.record(of_traffic());
        }
        let kept = journal.kept();
        assert_eq!(kept.len(), 1 + 2 * KEPT);
        assert_eq!((kept[0].number, &kept[0].what), (1, &reloaded()));
        let numbers = |is_drop: bool| {
            let events = kept[1..].iter();
            let of_kind = events.filter(move |event| event.what.is_drop() == is_drop);
            of_kind.map(|event| event.number)
        };
        assert!(numbers(true).eq(6..=1_005), "the first five are gone");
        assert!(
            numbers(false).eq(7..=1_006),
            "counted with the other change"
        );
        assert_eq!(journal.drops().last().unwrap().number, 1_005);
    }

    #[test]
    fn a_follower_that_comes_back_after_a_restart_gets_each_event_once() {
        let mut journal = Journal::after(7, vec![]);
        journal.record(reloaded());
        journal.record(drop());
        let cursor = journal.cursor();
        let behind = |journal: &Journal| -> Vec<_> {
            let kept = journal.kept().into_iter();
            let new = kept.filter(|event| !cursor.has_seen(event, &journal.cursor()));
            new.map(|event| (event.number, event.what.is_drop()))
                .collect()
        };
        assert_eq!(behind(&journal), []);
        journal.record(reloaded());
        let written = journal
            .kept()
            .into_iter()
            .filter(|event| !event.what.is_drop());
        let written = written.map(|event| (*event).clone()).collect();
        // This one is lost.
        journal.record(reloaded());
        journal.record(drop());
        assert_eq!(behind(&journal), [(2, false), (3, false), (2, true)]);
        let mut after = Journal::after(7, written);
        assert_eq!(behind(&after), [(2, false)]);
        after.record(drop());
        after.record(reloaded());
        assert_eq!(behind(&after), [(2, false), (1, true), (3, false)]);
    }

    #[test]
    fn who_follows_hears_what_comes_and_how_much_was_lost() {
        let mut journal = Journal::default();
        journal.record(reloaded());
        let mut follower = journal.follow();
        for _ in 0..BEHIND_MAX + 3 {
            journal.record(drop());
        }
        let lost = follower.try_recv().unwrap_err();
        assert_eq!(lost, broadcast::error::TryRecvError::Lagged(3));
        assert_eq!(follower.try_recv().unwrap().number, 4);
    }

    fn reloaded() -> What {
        What::Reloaded { changes: vec![] }
    }

    fn of_traffic() -> What {
        What::ChallengeEnded { is_of_dns: false }
    }

    fn drop() -> What {
        What::Drop(Dropped {
            source: [192, 0, 2, 1].into(),
            from: None,
            packet: PacketRequest::default(),
            reason: "limited".into(),
            observed: false,
            policy: None,
            limit: None,
            interface: "eth0".into(),
        })
    }
}
