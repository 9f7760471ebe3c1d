//! Drops packets that a limit refuses, unless the policy or the limit is a dry run.

use super::Packet;
use crate::{Address, FamilyTables, Verdict};

#[inline(always)]
#[expect(clippy::unnecessary_wraps, reason = "it is a stage, if the last one")]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    tables.sample(*packet.source, packet.refusal);
    let verdict = Verdict::Drop(packet.refusal.reason);
    Some(if packet.outcome.is_enforced() {
        verdict
    } else {
        verdict.observed()
    })
}
