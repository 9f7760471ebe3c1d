//! Passes neighbour discovery within its own budget. Without it the host drops off the link.

use super::Packet;
use crate::{Address, FamilyTables, PassReason, Verdict, flow::Content};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let passes = packet.flow.content == Content::NeighbourDiscovery
        && tables.admits_neighbour_discovery(packet.now);
    passes.then_some(Verdict::Pass(PassReason::NeighbourDiscovery))
}
