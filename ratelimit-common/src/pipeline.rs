//! Decides about a packet: allow beats ban beats limit.
//!
//! A packet passes through the stages listed below, in that order. Each stage is a file in
//! `pipeline/` with a function `run`. It returns a verdict, or `None` to continue with the next
//! stage. The kernel, the tests, `rlctl check` and `rlctl simulate` run the same stages.
//!
//! To add a stage, add its file and its name to the list.

use crate::{
    Address, Arrival, Cursor, DropReason, Family, FamilyTables, Flow, Instant, Ipv4, Ipv6,
    PassReason, Policy, Settings, Verdict, bits,
    charge::{Outcome, Refusal},
    classify::Classified,
    list::Listed,
    parse::{self, Payload, ipv4, ipv6},
};

/// Declares the stages, and the function that runs them: first those that look at the source
/// address, then those that look at the source, which may be a prefix around the address. The last
/// stage always returns a verdict.
macro_rules! stages {
    (by_address: [$($by_address:ident,)+] by_source: [$($by_source:ident,)+]) => {
        $(mod $by_address;)+
        $(mod $by_source;)+

        #[inline(always)]
        fn judge<A: Address>(
            flow: &Flow<A>,
            frame: Cursor<'_>,
            now: Instant,
            tables: &impl FamilyTables<A>,
        ) -> Verdict {
            let mut packet = Packet::new(flow, frame, now);
            $(
                if let Some(verdict) = $by_address::run(&mut packet, tables) {
                    return verdict;
                }
            )+
            let source = flow.source.source(tables.source_mask());
            packet.source = &source;
            $(
                if let Some(verdict) = $by_source::run(&mut packet, tables) {
                    return verdict;
                }
            )+
            Verdict::Pass(PassReason::Unlimited)
        }
    };
}

stages! {
    by_address: [
        invalid_source,
        neighbour_discovery,
        lists,
    ]
    by_source: [
        policy_ban,
        content,
        challenge,
        policy,
        classes,
        limits,
        established,
        strikes,
        refusal,
    ]
}

/// A packet on its way through the stages. Later stages read what earlier ones have set.
struct Packet<'a, A: Address> {
    /// A cursor at its beginning.
    frame: Cursor<'a>,
    flow: &'a Flow<A>,
    now: Instant,
    /// The rules of the lists for its source address.
    listed: Listed,
    /// The source address, or the prefix around it that is limited as one source.
    source: &'a A,
    /// The index of its policy, and the policy itself.
    policy_index: u32,
    policy: Option<&'a Policy>,
    classified: Classified,
    arrival: Arrival,
    /// The result of the limits, and the refusal if it is one.
    outcome: Outcome,
    refusal: Refusal,
}

/// Judges the packet in `frame`, a cursor at its front, which arrived at `now`, and counts it once
/// under its verdict.
#[inline(always)]
pub fn decide(
    frame: Cursor<'_>,
    now: Instant,
    tables: &(impl FamilyTables<Ipv4> + FamilyTables<Ipv6>),
) -> Verdict {
    let mut cursor = frame;
    let truncated = || bits::rare(Verdict::Drop(DropReason::Truncated));
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
            let verdict = flow.map_or_else(truncated, |flow| judge(&flow, frame, now, tables));
            (Family::Ipv4, verdict)
        }
        Ok(Payload::Ipv6) => {
            let flow = ipv6::flow(&mut cursor, |cursor, first| tables.walk(cursor, first));
            let flow = flow.map(|flow| inner.marked(flow));
            let verdict = flow.map_or_else(truncated, |flow| judge(&flow, frame, now, tables));
            (Family::Ipv6, verdict)
        }
        Ok(Payload::Other) => bits::rare((Family::Other, Verdict::Pass(PassReason::NotIp))),
        Err(reason) => bits::rare((Family::Other, Verdict::Drop(reason))),
    };
    let count = |verdict| {
        tables.count(family, verdict, frame.frame_bytes());
        verdict
    };
    // An action each, so that the compiler knows it where the packet is counted.
    match verdict {
        Verdict::Pass(reason) => count(Verdict::Pass(reason)),
        Verdict::Drop(reason) if !tables.settings().observe() => count(Verdict::Drop(reason)),
        Verdict::Drop(reason) | Verdict::Observe(reason) => count(Verdict::Observe(reason)),
    }
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

impl<'a, A: Address> Packet<'a, A> {
    #[inline(always)]
    fn new(flow: &'a Flow<A>, frame: Cursor<'a>, now: Instant) -> Self {
        Self {
            frame,
            flow,
            now,
            listed: Listed::NONE,
            source: &flow.source,
            policy_index: 0,
            policy: None,
            classified: Classified::NONE,
            arrival: Arrival {
                at: now,
                bytes: frame.frame_bytes(),
                classes: Classified::NONE.classes,
                settings: Settings::new(0, false),
            },
            outcome: Outcome::UNCOUNTED,
            refusal: Refusal::without_limit(DropReason::NoState),
        }
    }
}

/// Drops a packet, and samples it.
#[inline(always)]
fn refuse<A: Address>(source: A, reason: DropReason, tables: &impl FamilyTables<A>) -> Verdict {
    tables.sample(source, Refusal::without_limit(reason));
    Verdict::Drop(reason)
}

#[cfg(test)]
mod tests;
