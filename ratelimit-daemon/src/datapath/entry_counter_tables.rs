//! Packets that matched an entry of the lists, by the slots that entries name.

use std::{collections::BTreeMap, ops::Range};

use ratelimit_common::{DropReason, PassReason, Verdict, layout::Counter};

use super::Result;

/// Packets that matched an entry of the lists, by the slots that entries name.
pub trait EntryCounterTables {
    /// What is kept beside each slot that somebody has: of the first one the seed of hashes, of the others the hash of the owner.
    fn counter_owners(&self) -> Result<BTreeMap<u16, u64>>;

    /// Replaces that of one slot.
    fn set_counter_owner(&mut self, slot: u16, owner: u64) -> Result<()>;

    /// The count of a slot.
    fn entry_counter(&self, slot: u16) -> Result<Counter>;

    /// The counts of slots that stand side by side.
    fn entry_counters(&self, slots: Range<u32>) -> Result<Vec<Counter>>;

    /// The packets that limits judged on all interfaces there ever were.
    fn judged(&self) -> Result<Counter>;

    /// Replaces the count of a slot in which no packet is counted meanwhile.
    fn set_entry_counter(&mut self, slot: u16, count: Counter) -> Result<()>;
}

/// The verdicts of packets that a policy judged.
pub(super) fn verdicts_of_limits() -> impl Iterator<Item = Verdict> {
    let passed = [
        PassReason::Conforming,
        PassReason::Unlimited,
        PassReason::NewSources,
        PassReason::Exempt,
    ];
    let refused = [
        DropReason::Limited,
        DropReason::Contended,
        DropReason::NoState,
        DropReason::AggregateLimited,
        DropReason::NodeLimited,
        DropReason::NewSources,
        DropReason::Class,
    ];
    let refused = refused
        .into_iter()
        .flat_map(|reason| [Verdict::Drop(reason), Verdict::Observe(reason)]);
    passed.into_iter().map(Verdict::Pass).chain(refused)
}
