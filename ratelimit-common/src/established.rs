//! The second allowance of a source, for packets of its established TCP connections with this host.
//!
//! Whoever forges an address above its limit uses the limit up, and the connections of its owner stall with it. A policy may
//! name limits of their own for what its limits refuse of such connections. They are asked only then, so a packet that passes
//! pays nothing for them. They have state of their own, which a forger reaches only with the four ends of a connection.
//!
//! They stand in for the limits of the source alone: those of its prefixes, its destination and the node are neither asked nor
//! charged.

use crate::{
    Address, Arrival, Cursor, DropReason, Policy, charge::outcome::Outcome, tables::FamilyTables,
};

/// Whether a packet that `policy` refused may pass within its second allowance: one that another packet could have displaced. What
/// no packet may do, it may not do over a connection either, and further limits are there because somebody asked for less.
#[inline(always)]
pub fn is_asked(outcome: Outcome, policy: Option<&Policy>) -> bool {
    let Some(policy) = policy.filter(|policy| policy.established().is_some()) else {
        return false;
    };
    outcome.is_enforced()
        && outcome.refusal().is_some_and(|refusal| {
            matches!(refusal.reason, DropReason::Limited | DropReason::Contended)
                && usize::from(refusal.limit) < policy.len()
                && !policy.denies(refusal.limit)
        })
}

/// Charges a packet of `source` to the second allowance of `policy`, and answers whether it passes: it is one of an established
/// connection, a limit of the allowance counts it, and all of them had room.
#[inline(always)]
pub fn charge<A: Address>(
    source: &A,
    policy: Option<&Policy>,
    frame: Cursor<'_>,
    arrival: &Arrival,
    tables: &impl FamilyTables<A>,
) -> bool {
    let Some(index) = policy.and_then(Policy::established) else {
        return false;
    };
    FamilyTables::<A>::is_connected(tables, frame)
        && tables.charge(source, tables.policy(index), arrival) == Outcome::PASSED
}
