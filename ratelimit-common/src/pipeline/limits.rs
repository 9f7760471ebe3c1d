//! Charges the limits of the source, its prefixes, its destination and the node: see [`layers`].

use super::Packet;
use crate::{
    Address, DropReason, FamilyTables, PassReason, Verdict,
    charge::Outcome,
    features::{self, Feature},
    layers::{self, NO_DESTINATION},
    pipeline::refuse,
};

#[inline(always)]
pub(super) fn run<'a, A: Address>(
    packet: &mut Packet<'a, A>,
    tables: &'a impl FamilyTables<A>,
) -> Option<Verdict> {
    let policy = tables.policy(packet.policy_index);
    packet.policy = policy;
    let destination = if packet.arrival.settings.has_destinations() {
        tables.destination(packet.flow, packet.now)
    } else {
        NO_DESTINATION
    };
    let outcome = if packet.classified.outcome == Outcome::UNCOUNTED {
        layers::charge(packet.source, policy, destination, &packet.arrival, tables)
    } else {
        packet.classified.outcome
    };
    // Most packets pass, which is one comparison.
    if outcome == Outcome::PASSED {
        return Some(Verdict::Pass(PassReason::Conforming));
    }
    // Most refusals come from a cached denial, and count towards no ban.
    if outcome == Outcome::DENIED && !features::is_enabled::<{ Feature::PolicyBans as u8 }>() {
        return Some(refuse(*packet.source, DropReason::Limited, tables));
    }
    let Some(refusal) = outcome.refusal() else {
        return Some(Verdict::Pass(passed(outcome)));
    };
    packet.outcome = outcome;
    packet.refusal = refusal;
    None
}

/// The pass reason of a packet that no limit refuses.
#[inline(always)]
const fn passed(outcome: Outcome) -> PassReason {
    match outcome {
        Outcome::UNCOUNTED => PassReason::Unlimited,
        Outcome::OVER_BUDGET_PASSED => PassReason::NewSources,
        Outcome::EXEMPT => PassReason::Exempt,
        _ => PassReason::Conforming,
    }
}
