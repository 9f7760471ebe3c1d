//! The second allowance of a source, for packets of its established TCP connections with this host.
//!
//! Packets with a forged address above its limit use the limit up, and stall the connections of its
//! owner. A policy may have other limits for packets of such connections that its limits refuse.
//! They are used only then, so an admitted packet pays nothing for them. They have separate state,
//! which a forger can only reach with the four ends of a connection.
//!
//! They replace only the limits of the source: those of its prefixes, its destination and the node
//! are neither checked nor charged.

use crate::{
    Address, Arrival, Cursor, DropReason, Policy, charge::outcome::Outcome, tables::FamilyTables,
};

/// Whether a packet that `policy` refused may pass within its second allowance: if another packet
/// could have displaced it. A packet that is always denied is also denied on a connection, and
/// further limits exist because an operator or a detected attack requires them.
#[inline(always)]
pub fn may_pass(outcome: Outcome, policy: Option<&Policy>) -> bool {
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

/// Charges a packet of `source` to the second allowance of `policy`, and returns whether it passes:
/// it belongs to an established connection, a limit of the allowance counts it, and all of these
/// have room.
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
