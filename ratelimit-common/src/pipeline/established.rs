//! Passes refused packets of established connections within their second allowance: see
//! [`established`].

use super::Packet;
use crate::{Address, FamilyTables, PassReason, Verdict, established};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let Packet {
        source,
        policy,
        frame,
        arrival,
        ..
    } = packet;
    let passes = arrival.settings.has_established()
        && established::may_pass(packet.outcome, *policy)
        && tables.charge_established(source, *policy, *frame, arrival);
    passes.then_some(Verdict::Pass(PassReason::Established))
}
