//! Counts the refusal of a source, and the strikes that lead to a ban.

use super::Packet;
use crate::{
    Address, DropReason, FamilyTables, Verdict,
    features::{self, Feature},
    strikes::Strike,
};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let (outcome, refusal) = (packet.outcome, packet.refusal);
    if !refusal.reason.is_of_source() {
        return None;
    }
    let (source, now, settings) = (packet.source, packet.now, packet.arrival.settings);
    // A cached denial has counted it already.
    if !outcome.is_refusal_counted() {
        tables.count_refusal(source, now);
    }
    let strike = Strike {
        at: now,
        frame: packet.frame,
        limit: refusal.limit,
        may_ban: refusal.reason == DropReason::Limited
            && outcome.is_enforced()
            && !settings.observes_here()
            && !packet.listed.is_protected(),
    };
    // A source that is challenged and unverified may be forged, whatever the policy allows.
    if features::is_enabled::<{ Feature::PolicyBans as u8 }>()
        && tables.strike(source, packet.policy, &strike)
        && !(settings.has_challenge() && tables.is_unproved(source, &strike))
    {
        tables.ban_by_policy(source, packet.policy, &strike);
    }
    None
}
