//! Drops packets from multicast and broadcast addresses, which no host sends from.

use super::Packet;
use crate::{Address, DropReason, FamilyTables, Verdict, pipeline::refuse};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let source = &packet.flow.source;
    source
        .is_invalid_source()
        .then(|| refuse(*source, DropReason::InvalidSource, tables))
}
