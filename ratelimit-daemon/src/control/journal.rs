//! The events of late in memory, kept for whoever asks, and told to whoever follows. `event_log.rs` has them on disk.
//!
//! Drops are kept apart from changes: a flood tells a hundred of them a second and CPU, and is not to push out the ban that
//! ended it.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use jiff::Timestamp;
use ratelimit_core::api::{Event, What};
use smart_default::SmartDefault;
use tokio::sync::broadcast;

use super::event_log;

/// The changes that are kept.
const CHANGES_KEPT: usize = event_log::ROWS_MAX;
/// The drops that are kept.
const DROPS_KEPT: usize = 1_000;
/// The events that a follower may be behind before it loses some.
const BEHIND_MAX: usize = 4_096;

/// The events of this run of the daemon, and the changes of those before.
#[derive(SmartDefault)]
pub struct Journal {
    recorded: u64,
    changes: VecDeque<Arc<Event>>,
    /// Those of them that a restart would forget.
    unkept: Vec<Arc<Event>>,
    drops: VecDeque<Arc<Event>>,
    #[default(broadcast::Sender::new(BEHIND_MAX))]
    followers: broadcast::Sender<Arc<Event>>,
    /// The interfaces by their slots.
    interfaces: BTreeMap<u32, String>,
}

impl Journal {
    /// Keeps what happened at `at`, and tells it to those who follow.
    pub fn record(&mut self, at: Timestamp, what: What) {
        self.recorded += 1;
        let is_drop = what.is_drop();
        let event = Arc::new(Event {
            number: self.recorded,
            at,
            what,
        });
        let (kept, most) = if is_drop {
            (&mut self.drops, DROPS_KEPT)
        } else {
            if self.unkept.len() < CHANGES_KEPT {
                self.unkept.push(Arc::clone(&event));
            }
            (&mut self.changes, CHANGES_KEPT)
        };
        if kept.len() == most {
            kept.pop_front();
        }
        kept.push_back(Arc::clone(&event));
        // Nobody may follow.
        let _ = self.followers.send(event);
    }

    /// The journal that goes on from the changes of the runs before.
    pub fn after(changes: Vec<Event>) -> Self {
        Self {
            recorded: changes.last().map_or(0, |event| event.number),
            changes: changes.into_iter().map(Arc::new).collect(),
            ..Self::default()
        }
    }

    /// The changes that a restart would forget.
    pub fn unkept(&self) -> &[Arc<Event>] {
        &self.unkept
    }

    /// They were kept.
    pub fn forget_unkept(&mut self) {
        self.unkept.clear();
    }

    /// What is kept, in its order.
    pub fn kept(&self) -> Vec<Arc<Event>> {
        let mut kept: Vec<_> = self.changes.iter().chain(&self.drops).cloned().collect();
        kept.sort_unstable_by_key(|event| event.number);
        kept
    }

    /// The last `count` events that are kept and are no drops, in their order.
    pub fn changes(&self, count: usize) -> Vec<Arc<Event>> {
        let first = self.changes.len().saturating_sub(count);
        self.changes.iter().skip(first).cloned().collect()
    }

    /// What happens from here on.
    pub fn follow(&self) -> broadcast::Receiver<Arc<Event>> {
        self.followers.subscribe()
    }

    /// The drops that are kept, in their order.
    pub fn drops(&self) -> impl Iterator<Item = &Event> {
        self.drops.iter().map(AsRef::as_ref)
    }

    /// The name of the interface in a slot.
    pub fn interface(&self, slot: u32) -> String {
        self.interfaces.get(&slot).cloned().unwrap_or_default()
    }

    /// The interfaces by their slots.
    pub fn interfaces(&self) -> &BTreeMap<u32, String> {
        &self.interfaces
    }

    /// Says which interface has which slot.
    pub fn name_interfaces(&mut self, names: impl IntoIterator<Item = (u32, String)>) {
        self.interfaces = names.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratelimit_core::api::{Dropped, PacketRequest};

    #[test]
    fn drops_push_out_drops_and_no_changes() {
        let mut journal = Journal::default();
        journal.record(Timestamp::UNIX_EPOCH, reloaded());
        for _ in 0..DROPS_KEPT + 5 {
            journal.record(Timestamp::UNIX_EPOCH, drop());
        }
        let kept = journal.kept();
        assert_eq!(kept.len(), 1 + DROPS_KEPT);
        assert_eq!((kept[0].number, &kept[0].what), (1, &reloaded()));
        let numbers = kept.iter().skip(1).map(|event| event.number);
        assert!(numbers.eq(7..=1_006), "the first five are gone");
        assert_eq!(journal.drops().last().unwrap().number, 1_006);
    }

    #[test]
    fn who_follows_hears_what_comes_and_how_much_was_lost() {
        let mut journal = Journal::default();
        journal.record(Timestamp::UNIX_EPOCH, reloaded());
        let mut follower = journal.follow();
        for _ in 0..BEHIND_MAX + 3 {
            journal.record(Timestamp::UNIX_EPOCH, drop());
        }
        let lost = follower.try_recv().unwrap_err();
        assert_eq!(lost, broadcast::error::TryRecvError::Lagged(3));
        assert_eq!(follower.try_recv().unwrap().number, 5);
    }

    fn reloaded() -> What {
        What::Reloaded { changes: vec![] }
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
