//! Challenges unverified sources: see [`challenge`](crate::challenge).

use super::Packet;
use crate::{
    Address, DropReason, FamilyTables, PassReason, Verdict, challenge::Effect, pipeline::refuse,
};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    if !tables.settings().has_challenge() {
        return None;
    }
    let Packet {
        frame,
        flow,
        listed,
        now,
        ..
    } = *packet;
    match tables.challenge(packet.source, frame, flow, listed, now) {
        Effect::Unasked => None,
        Effect::Challenged => Some(refuse(flow.source, DropReason::Challenged, tables)),
        Effect::Verified => Some(Verdict::Pass(PassReason::Verified)),
        Effect::Unverified => {
            tables.exclude_from_reserve();
            None
        }
    }
}
