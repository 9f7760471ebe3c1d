//! What the program keeps of sources, to be read: by a scan of all of them beside the owner of the tables, who goes on
//! meanwhile. Nothing can be written by it.

use std::{net::IpAddr, ops::Range};

use ratelimit_common::{Instant, Policy, Record, Refusals, compact::Region};
use ratelimit_core::ip_family::IpFamily;

use super::{LogRow, Place, Result, SlotRow, SourceRow};

/// Sets of a `compact` table that are read at once: 2 MiB of each family. To map a whole table takes a millisecond and more, in which no
/// other thread can map what it needs.
pub const SETS_AT_ONCE: u32 = 1 << 14;

/// The state of sources, of the node and of who was refused.
pub trait SourceTables: Send + Sync {
    /// Whether the state of sources is in a `compact` table.
    fn is_compact(&self) -> bool;

    /// How many sources of IPv4 and of IPv6 ever got state.
    fn inserted(&self) -> Result<[u64; 2]>;

    /// Shows the slots of some sets of a region of that table that are not empty, in both families.
    fn some_slots(
        &self,
        region: Region,
        sets: Range<u32>,
        visit: &mut dyn FnMut(SlotRow),
    ) -> Result<()>;

    /// The same of all its sets.
    fn for_each_slot(&self, region: Region, visit: &mut dyn FnMut(SlotRow)) -> Result<()> {
        let mut firsts = (0..region.sets()).step_by(SETS_AT_ONCE as usize);
        firsts.try_for_each(|first| {
            let end = first.saturating_add(SETS_AT_ONCE);
            self.some_slots(region, first..end.min(region.sets()), visit)
        })
    }

    /// The source that a tag of that table stands for.
    fn source_of_tag(&self, family: IpFamily, tag: u64) -> IpAddr;

    /// Shows up to `count` sources of a family from a place on, or some more, and answers where to go on: at the front after the
    /// last one. Those in a `compact` table are not among them.
    fn some_sources(
        &self,
        family: IpFamily,
        place: &Place,
        count: usize,
        visit: &mut dyn FnMut(SourceRow),
    ) -> Result<Place>;

    /// Shows the state of all sources of all scopes, but for those in a `compact` table.
    fn for_each_source(&self, visit: &mut dyn FnMut(SourceRow)) -> Result<()>;

    /// The state of a source, whose address is cut to the configured prefix, under a policy. In a `compact` table it is
    /// what a packet of the source would be judged by, at `now`, where it has no slot.
    fn record(&self, source: IpAddr, policy: &Policy, now: Instant) -> Result<Option<Record>>;

    /// The words of a sliding log: that of the limit at `limit` for a source under a scope. `None` when it logged nothing.
    fn log(&self, source: IpAddr, scope: u32, limit: u32) -> Result<Option<Vec<u64>>>;

    /// Shows some of the sliding logs from a place on, of both families.
    fn some_logs(&self, place: &Place, visit: &mut dyn FnMut(LogRow)) -> Result<Place>;

    /// How many entries maps have that only a scan can count, but for those of sources, by their names.
    fn count_others(&self) -> Result<Vec<(&'static str, u64)>>;

    /// The state of a policy of the node or of a destination, in its slot.
    fn total(&self, slot: u32) -> Result<Record>;

    /// How often a source was refused; `None` where it is not known to have been.
    fn refusals(&self, source: IpAddr) -> Result<Option<Refusals>>;

    /// How often limits of this scope refused packets of an address that many share, as far as it is known; `None` where that is not counted.
    fn shared_refusals(&self, address: IpAddr, scope: u32) -> Result<Option<Refusals>>;

    /// Shows the sources that were refused last, as many as have room.
    fn for_each_refused(&self, visit: &mut dyn FnMut(IpAddr, Refusals)) -> Result<()>;
}
