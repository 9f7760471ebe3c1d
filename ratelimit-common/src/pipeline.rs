//! The sentence an operator can say: allow beats ban beats limit.

use crate::{
    Address, Arrival, Cursor, DropReason, Family, Flow, Instant, PassReason, Policy, Verdict,
    challenge,
    charge::{Outcome, Refusal},
    classify::Classified,
    established,
    features::{self, Feature},
    flow::Content,
    layers::{self, NO_DESTINATION},
    list::Listed,
    parse::{self, Payload, ipv4, ipv6},
    placement::{FamilyPlacement, Placement},
    strikes::Strike,
    tables::{FamilyTables, Tables},
};

/// Judges the packet in `frame`, a cursor at its front, which arrived at `now`, and counts it once under its verdict.
#[inline(always)]
pub fn decide(frame: Cursor<'_>, now: Instant, tables: &impl Placement) -> Verdict {
    let mut cursor = frame;
    let truncated = Verdict::Drop(DropReason::Truncated);
    let inner = tables.inner(frame);
    if tables.settings().pass_all() && now < tables.pass_all_until() {
        let verdict = Verdict::Pass(PassReason::PassAll);
        let payload = parse::network(&mut cursor, tables.link_layer(), inner);
        tables.count(family_of(payload), verdict, frame.frame_bytes());
        return verdict;
    }
    let (family, verdict) = match parse::network(&mut cursor, tables.link_layer(), inner) {
        Ok(Payload::Ipv4) => {
            let flow = ipv4::flow(&mut cursor);
            let verdict = flow.map_or(truncated, |flow| judge(&flow, frame, now, tables));
            (Family::Ipv4, verdict)
        }
        Ok(Payload::Ipv6) => {
            let flow = ipv6::flow(&mut cursor, |cursor, first| tables.walk(cursor, first));
            let flow = flow.map(|flow| inner.marked(flow));
            let verdict = flow.map_or(truncated, |flow| judge(&flow, frame, now, tables));
            (Family::Ipv6, verdict)
        }
        Ok(Payload::Other) => (Family::Other, Verdict::Pass(PassReason::NotIp)),
        Err(reason) => (Family::Other, Verdict::Drop(reason)),
    };
    let verdict = if tables.settings().observe() {
        verdict.observed()
    } else {
        verdict
    };
    tables.count(family, verdict, frame.frame_bytes());
    verdict
}

/// The family that a packet counts under when nothing more of it is read.
#[inline(always)]
fn family_of(payload: Result<Payload, DropReason>) -> Family {
    match payload {
        Ok(Payload::Ipv4) => Family::Ipv4,
        Ok(Payload::Ipv6) => Family::Ipv6,
        Ok(Payload::Other) | Err(_) => Family::Other,
    }
}

#[inline(always)]
fn judge<A, T>(flow: &Flow<A>, frame: Cursor<'_>, now: Instant, tables: &T) -> Verdict
where
    A: Address,
    T: Placement + FamilyPlacement<A>,
{
    if flow.source.is_invalid_source() {
        return refuse(
            flow.source,
            Refusal::without_limit(DropReason::InvalidSource),
            tables,
        );
    }
    if flow.content == Content::NeighbourDiscovery && tables.admits_neighbour_discovery(now) {
        return Verdict::Pass(PassReason::NeighbourDiscovery);
    }
    let listed = tables.listed(flow.source, now);
    if listed.is_allowed() {
        tables.count_entry(listed, frame.frame_bytes());
        return Verdict::Pass(PassReason::Allowed);
    }
    if listed.is_refused() {
        tables.count_entry(listed, frame.frame_bytes());
        return refuse_listed(flow.source, listed, tables);
    }
    let settings = tables.settings();
    let source = flow.source.source(tables.source_mask());
    // The source may be wider than the address, so it is here that a protected address is exempt.
    if settings.has_detection() && !listed.is_protected() && is_detected(&source, now, tables) {
        return refuse(source, Refusal::without_limit(DropReason::Banned), tables);
    }
    if let Some(reason) = flow.content.refusal() {
        return refuse(flow.source, Refusal::without_limit(reason), tables);
    }
    if settings.has_challenge() {
        match tables.challenge(&source, frame, flow, listed, now) {
            challenge::Outcome::Unasked => {}
            challenge::Outcome::Challenged => {
                let refusal = Refusal::without_limit(DropReason::Challenged);
                return refuse(flow.source, refusal, tables);
            }
            challenge::Outcome::Verified => return Verdict::Pass(PassReason::Verified),
            challenge::Outcome::Unverified => tables.leave_reserve(),
        }
    }
    let settings = tables.settings();
    // Before the limits: behind them the entry would take stack from all packets.
    let policy = counted_policy(listed, frame.frame_bytes(), tables);
    let classified = if settings.has_classes() {
        tables.classify(frame, flow.upper, policy)
    } else {
        Classified::NONE
    };
    let arrival = Arrival {
        at: now,
        bytes: frame.frame_bytes(),
        classes: classified.classes,
        settings,
    };
    let policy = tables.policy(policy);
    let destination = if settings.has_destinations() {
        tables.destination(flow, now)
    } else {
        NO_DESTINATION
    };
    let outcome = if classified.outcome == Outcome::UNCOUNTED {
        layers::charge(&source, policy, destination, &arrival, tables)
    } else {
        classified.outcome
    };
    // The usual one, known by a single comparison.
    if outcome == Outcome::PASSED {
        return Verdict::Pass(PassReason::Conforming);
    }
    let Some(refusal) = outcome.refusal() else {
        return Verdict::Pass(passed(outcome));
    };
    if is_of_connection(outcome, &source, policy, frame, &arrival, tables) {
        return Verdict::Pass(PassReason::Established);
    }
    if refusal.reason.is_of_source() {
        count_refusal(outcome, &source, now, tables);
        let strike = Strike {
            at: now,
            frame,
            limit: refusal.limit,
            may_ban: refusal.reason == DropReason::Limited
                && outcome.is_enforced()
                && !settings.observes_here()
                && !listed.is_protected(),
        };
        // Who has to prove itself for such a packet, and has not, may be forged whatever the policy says of that.
        if features::is_enabled::<{ Feature::Detection as u8 }>()
            && tables.strike(&source, policy, &strike)
            && !(settings.has_challenge() && tables.is_unproved(&source, &strike))
        {
            tables.detect(&source, policy, &strike);
        }
    }
    let verdict = refuse(source, refusal, tables);
    if outcome.is_enforced() {
        verdict
    } else {
        verdict.observed()
    }
}

/// The index of a source's policy by the lists, whose entry counts the packet.
#[inline(always)]
fn counted_policy(listed: Listed, frame_bytes: u32, tables: &impl Tables) -> u32 {
    let default = tables.settings().default_policy();
    // Most sources are on no list, which the lean program knows by one comparison. The verifier would follow both ways through
    // all features.
    if cfg!(feature = "lean") && listed == Listed::NONE {
        return default;
    }
    tables.count_entry(listed, frame_bytes);
    listed.policy().unwrap_or(default)
}

/// Why a packet passes that no limit refuses.
#[inline(always)]
const fn passed(outcome: Outcome) -> PassReason {
    match outcome {
        Outcome::UNCOUNTED => PassReason::Unlimited,
        Outcome::OVER_BUDGET_PASSED => PassReason::NewSources,
        Outcome::EXEMPT => PassReason::Exempt,
        _ => PassReason::Conforming,
    }
}

/// Counts a refusal, unless a cached denial has counted it.
#[inline(always)]
fn count_refusal<A: Address>(
    outcome: Outcome,
    source: &A,
    now: Instant,
    tables: &impl FamilyTables<A>,
) {
    if !outcome.is_refusal_counted() {
        tables.count_refusal(source, now);
    }
}

/// Whether a packet that was refused is one of an established connection, and passes within its second allowance.
#[inline(always)]
fn is_of_connection<A: Address>(
    outcome: Outcome,
    source: &A,
    policy: Option<&Policy>,
    frame: Cursor<'_>,
    arrival: &Arrival,
    tables: &impl FamilyPlacement<A>,
) -> bool {
    arrival.settings.has_established()
        && established::is_asked(outcome, policy)
        && tables.charge_established(source, policy, frame, arrival)
}

/// Whether a policy has banned a source.
#[inline(always)]
fn is_detected<A: Address>(source: &A, now: Instant, tables: &impl FamilyTables<A>) -> bool {
    let ban = tables.detected(source);
    ban.is_some_and(|ban| ban.is_active(now))
}

/// Refuses a packet by a ban, or by a policy that drops every packet.
#[inline(always)]
fn refuse_listed<A: Address>(source: A, listed: Listed, tables: &impl FamilyTables<A>) -> Verdict {
    let refusal = Refusal::without_limit(listed.refusal());
    let verdict = refuse(source, refusal, tables);
    if listed.is_dry_run() {
        verdict.observed()
    } else {
        verdict
    }
}

#[inline(always)]
fn refuse<A: Address>(source: A, refusal: Refusal, tables: &impl FamilyTables<A>) -> Verdict {
    tables.sample(source, refusal);
    Verdict::Drop(refusal.reason)
}

#[cfg(test)]
mod tests;
