//! The sentence an operator can say: allow beats ban beats limit.

use crate::{
    Address, Cursor, DropReason, Family, Flow, Instant, PassReason, Policy, SourceKey, Tables,
    Verdict,
    charge::{self, Refusal},
    flow::Content,
    parse::{self, Packet},
    tables::{FamilyTables, InsertError},
};

/// Judges the frame at `cursor`, which arrived at `now`, and counts it once under its verdict.
#[inline(always)]
pub fn decide(cursor: Cursor<'_>, now: Instant, tables: &impl Tables) -> Verdict {
    let frame_bytes = cursor.frame_bytes();
    let (family, verdict) = match parse::parse(cursor) {
        Packet::Ipv4(flow) => (Family::Ipv4, judge(&flow, now, frame_bytes, tables)),
        Packet::Ipv6(flow) => (Family::Ipv6, judge(&flow, now, frame_bytes, tables)),
        Packet::NotIp => (Family::Other, Verdict::Pass(PassReason::NotIp)),
        Packet::Unreadable(family, reason) => (family, Verdict::Drop(reason)),
    };
    let verdict = if tables.settings().observe() {
        verdict.observed()
    } else {
        verdict
    };
    tables.count(family, verdict, frame_bytes);
    verdict
}

#[inline(always)]
fn judge<A, T>(flow: &Flow<A>, now: Instant, frame_bytes: u32, tables: &T) -> Verdict
where
    A: Address,
    T: Tables + FamilyTables<A>,
{
    if flow.content == Content::NeighbourDiscovery {
        return Verdict::Pass(PassReason::NeighbourDiscovery);
    }
    let entry = tables.list_entry(flow.source).unwrap_or_default();
    if entry.is_allowed() {
        return Verdict::Pass(PassReason::Allowed);
    }
    if entry.is_banned(now) {
        return Verdict::Drop(DropReason::Banned);
    }
    if flow.content == Content::TooDeep {
        return Verdict::Drop(DropReason::ExtensionDepth);
    }
    let index = entry.policy().unwrap_or(tables.settings().default_policy());
    let Some(policy) = tables.policy(index).filter(|policy| !policy.is_empty()) else {
        return Verdict::Pass(PassReason::Unlimited);
    };
    let source = flow.source.masked(tables.source_mask());
    match limit(policy, source, now, frame_bytes, tables) {
        Ok(()) => Verdict::Pass(PassReason::Conforming),
        Err(refusal) => {
            tables.strike(source, refusal);
            let verdict = Verdict::Drop(refusal.reason);
            if policy.observe() {
                verdict.observed()
            } else {
                verdict
            }
        }
    }
}

/// Charges the packet to its source, making the source's state at its first packet.
#[inline(always)]
fn limit<A: Address>(
    policy: &Policy,
    source: A,
    now: Instant,
    frame_bytes: u32,
    tables: &impl FamilyTables<A>,
) -> Result<(), Refusal> {
    let key = SourceKey::new(source, policy.scope());
    if let Some(words) = tables.words(&key) {
        return charge::charge(policy, &words, now, frame_bytes);
    }
    let record = charge::first(policy, now, frame_bytes)?;
    match tables.insert(&key, &record) {
        Ok(()) => Ok(()),
        // Another CPU saw the source's first packet at the same time: this is its second.
        Err(InsertError::Exists) => match tables.words(&key) {
            Some(words) => charge::charge(policy, &words, now, frame_bytes),
            None => Err(Refusal::NO_STATE),
        },
        Err(InsertError::Full) => Err(Refusal::NO_STATE),
    }
}
