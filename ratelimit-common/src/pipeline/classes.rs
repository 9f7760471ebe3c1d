//! Classifies the packet. If a class drops its packets or exempts them, `limits` uses its outcome.

use super::Packet;
use crate::{Address, FamilyTables, Verdict, classify::Classified};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let settings = tables.settings();
    packet.classified = if settings.has_classes() {
        tables.classify(packet.frame, packet.flow.upper, packet.policy_index)
    } else {
        Classified::NONE
    };
    packet.arrival.classes = packet.classified.classes;
    packet.arrival.settings = settings;
    None
}
