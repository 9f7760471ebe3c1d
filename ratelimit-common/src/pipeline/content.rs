//! Drops packets whose headers have a rule of their own, such as too many extension headers.

use super::Packet;
use crate::{Address, FamilyTables, Verdict, pipeline::refuse};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let reason = packet.flow.content.refusal()?;
    Some(refuse(packet.flow.source, reason, tables))
}
