//! The challenge, which verifies sources. While it is on, the program answers a SYN from a source
//! that is not verified, and drops it.
//!
//! The answer is a SYN-ACK with a deliberately wrong acknowledgement number: a [cookie] of both
//! ends and the time. A client that receives it sends a RST with the cookie as its sequence number
//! (RFC 9293, 3.10.7.3) and is thereby verified; its retransmitted SYN passes. A sender with a
//! forged address receives nothing. No state is kept for a source before it is verified.
//!
//! If [listeners are asked](Rules::asks_listeners), the SYN-ACK has a SYN cookie of the listener
//! instead (RFC 4987, 3.6). Its acknowledgement verifies the source and opens the connection as
//! well.
//!
//! A DNS [query] is answered with an empty, truncated response, so an honest resolver retries over
//! TCP, and is verified there.
//!
//! # Unanswered packets
//!
//! Beyond the budgets for all answers and for those to one source, packets are judged as if there
//! were no challenge. An answer is never larger than its question, so this host cannot be used for
//! amplification.

pub mod answer;
pub mod answer_limit;
pub mod cookie;
mod fast_path;
mod next_packets;
pub mod options;
pub mod query;
pub mod rules;
pub mod segment;
pub mod siphash;
pub mod state;
mod targets;
mod verified;
mod verified_cache;

pub use self::{
    cookie::{Key, Message},
    fast_path::{is_unchallenged, record_idle},
    next_packets::Counted,
    rules::{LocalState, PORTS_MAX, Period, Rules, Shared, SharedState, Traffic, Trigger},
    segment::{Offsets, Segment, segment, upper},
    state::ChallengeState,
    targets::{TARGETS_MAX, Targets},
    verified::Verified,
    verified_cache::VerifiedCache,
};
use crate::{
    Address, ClassSet, Cursor, Flow, Instant, Tables,
    classify::{self, Wanted},
    list::Listed,
    parse::{Inner, LinkLayer, transport::UpperLayer},
};

/// The time for which it stays on after the last second with too many requests, in nanoseconds.
pub const HOLD_NS: u64 = 10_000_000_000;

/// The effect of the challenge on a packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// The packet is judged as if there were no challenge.
    Unasked,
    /// The packet asks for a connection, and is answered instead of reaching the server.
    Challenged,
    /// The packet contains the cookie, and verifies its source.
    Verified,
    /// The packet is judged as if there were no challenge, and leaves the
    /// [reserve](crate::node::RESERVE_PART) of the node to verified sources.
    Unverified,
}

impl Effect {
    /// Returns the outcome with this number.
    #[inline(always)]
    pub const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Unasked,
            1 => Self::Challenged,
            2 => Self::Verified,
            _ => Self::Unverified,
        }
    }
}

/// Challenges a segment of `source`, or accepts its proof. Otherwise returns the effect for its
/// source. `classes` returns the [classes](Rules::include_classes) of the segment.
#[inline(always)]
pub fn judge<A: Address>(
    source: &A,
    segment: &Segment<A>,
    classes: impl FnOnce(bool) -> ClassSet,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Effect {
    let Some(rules) = state.rules() else {
        return Effect::Unasked;
    };
    let outcome = ask(source, segment, classes, now, rules, state);
    if outcome == Effect::Unasked {
        without_challenge(source, now, state)
    } else {
        outcome
    }
}

/// The effect for a source whose packet is not challenged: `Unverified` or `Unasked`.
#[inline(always)]
pub fn without_challenge<A: Address>(
    source: &A,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Effect {
    let Some(rules) = state.rules() else {
        return Effect::Unasked;
    };
    // While no source is challenged, none can be verified.
    if rules.prefers_verified()
        && is_on(Traffic::Connections, rules, now, state)
        && !state.is_acknowledged(source, now)
    {
        Effect::Unverified
    } else {
        Effect::Unasked
    }
}

/// Challenges a datagram of `source` to this port, which may be a [query](query::question_bytes)
/// that can be answered. Otherwise returns the effect for its source.
#[inline(always)]
pub fn judge_datagram<A: Address>(
    source: &A,
    port: u16,
    is_query: impl FnOnce() -> bool,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Effect {
    let Some(rules) = state.rules() else {
        return Effect::Unasked;
    };
    if !rules.asks_queries_to(port) || now < state.paused_until() {
        return without_challenge(source, now, state);
    }
    let was_on = is_on(Traffic::Queries, rules, now, state);
    let is_counted = !was_on && state.takes(Shared::Queries, now);
    // If verified sources are preferred, the source matters while it can be verified.
    let source_matters =
        rules.prefers_verified() && is_wanted(Traffic::Connections, rules, now, state);
    let counts_all = is_counted && !source_matters;
    state.set_counted(Traffic::Queries, counts_all.then_some(Counted::All));
    if is_counted {
        return without_challenge(source, now, state);
    }
    if state.is_verified(source, now) {
        let until = known_until(Traffic::Queries, rules, now, state);
        state.set_passes_verified(Traffic::Queries, until);
        return without_challenge(source, now, state);
    }
    if rules.is_over(Traffic::Queries) {
        hold(Traffic::Queries, was_on, now, state);
    }
    if is_query() && takes_answer(source, now, state) {
        Effect::Challenged
    } else if rules.prefers_verified() {
        Effect::Unverified
    } else {
        Effect::Unasked
    }
}

/// [`judge`] of the packet in `frame`, a cursor at its beginning, if the lists do not protect its
/// source.
#[inline(always)]
pub fn judge_packet<A: Address>(
    source: &A,
    frame: Cursor<'_>,
    flow: &Flow<A>,
    listed: Listed,
    now: Instant,
    tables: &(impl Tables + ChallengeState<A>),
) -> Effect {
    if listed.is_protected() {
        return Effect::Unasked;
    }
    if tables.inner(frame) != Inner::NONE {
        return without_challenge(source, now, tables);
    }
    if is_unchallenged(source, || frame, flow, tables.settings(), now, tables) {
        return Effect::Unasked;
    }
    record_idle::<A, _>(now, tables);
    let upper = flow.upper;
    if let Some(segment) = segment::<A>(frame, tables.link_layer(), upper) {
        let classes = |headers| {
            let wanted = Wanted::by_challenge(headers);
            classify::classes(frame, upper, wanted, tables)
        };
        return judge(source, &segment, classes, now, tables);
    }
    match query::port(frame, upper) {
        Some(port) => {
            let is_query =
                || query::question_bytes(frame, tables.link_layer(), query::name_bytes).is_some();
            judge_datagram(source, port, is_query, now, tables)
        }
        None => without_challenge(source, now, tables),
    }
}

/// Whether the packet in `frame`, a cursor at its beginning, may be forged: its source would be
/// challenged and is not verified, or only by a RST. Counts nothing.
#[inline(always)]
pub fn is_unproved<A: Address>(
    source: &A,
    frame: Cursor<'_>,
    link_layer: LinkLayer,
    upper: UpperLayer,
    classes: impl FnOnce(bool) -> ClassSet,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    let Some(rules) = state.rules() else {
        return false;
    };
    if let Some(segment) = segment::<A>(frame, link_layer, upper) {
        return segment.asks_for_connection()
            && !state.is_acknowledged(source, now)
            && (is_for_queries(&segment, rules, now, state)
                || is_on(Traffic::Connections, rules, now, state)
                    && is_target(&segment, rules)
                    && rules.include_classes(classes));
    }
    query::port(frame, upper).is_some_and(|port| rules.asks_queries_to(port))
        && is_on(Traffic::Queries, rules, now, state)
        && !state.is_acknowledged(source, now)
}

/// Challenges a segment, or accepts its proof.
#[inline(always)]
fn ask<A: Address>(
    source: &A,
    segment: &Segment<A>,
    classes: impl FnOnce(bool) -> ClassSet,
    now: Instant,
    rules: &Rules,
    state: &impl ChallengeState<A>,
) -> Effect {
    if segment.is_reset() {
        let hash = |message: &Message| state.cookie(message);
        let is_proof = || cookie::is_valid(&segment.connection, segment.sequence, now, hash);
        return take_proof(source, segment, is_proof, now, rules, state);
    }
    if rules.asks_listeners() && segment.acknowledges() {
        let is_proof = || state.acknowledges_listener(segment);
        return take_proof(source, segment, is_proof, now, rules, state);
    }
    if !segment.asks_for_connection() || now < state.paused_until() {
        return Effect::Unasked;
    }
    let is_target = is_target(segment, rules) && rules.include_classes(classes);
    let was_on = is_target && is_on(Traffic::Connections, rules, now, state);
    let is_over = is_target && rules.is_over(Traffic::Connections);
    let is_on = was_on || is_over && !state.takes(Shared::Unverified, now);
    // The drawn share covers all following packets, unless their kind has to be known.
    let counted = if is_wanted(Traffic::Queries, rules, now, state) {
        Counted::ButToDns
    } else {
        Counted::All
    };
    let is_counted = is_over && rules.includes_all_classes() && !is_on;
    state.set_counted(Traffic::Connections, is_counted.then_some(counted));
    if !is_on && !is_for_queries(segment, rules, now, state) {
        return Effect::Unasked;
    }
    if state.is_verified(source, now) {
        if is_on {
            let until = known_until(Traffic::Connections, rules, now, state);
            state.set_passes_verified(Traffic::Connections, until);
        }
        return Effect::Unasked;
    }
    if is_on && is_over {
        hold(Traffic::Connections, was_on, now, state);
    }
    // A fragment is not answered, and does not pass: together with the rest, the server would
    // answer it.
    if !segment.is_whole() || takes_answer(source, now, state) {
        Effect::Challenged
    } else {
        Effect::Unasked
    }
}

/// Takes an answer to `source` from both budgets. `false` if one of them is spent.
#[inline(always)]
fn takes_answer<A: Address>(source: &A, now: Instant, state: &impl ChallengeState<A>) -> bool {
    let answers = state.may_answer(source, now) && state.takes(Shared::Answers, now);
    if !answers {
        state.count_unanswered();
    }
    answers
}

/// Whether a segment goes to a DNS port while queries are challenged: clients that retry over TCP
/// are verified there.
#[inline(always)]
fn is_for_queries<A: Address>(
    segment: &Segment<A>,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    let [_, port] = segment.connection.ports;
    rules.asks_queries_to(u16::from_be_bytes(port)) && is_on(Traffic::Queries, rules, now, state)
}

/// Whether a segment asks for a connection that is subject to the challenge.
#[inline(always)]
fn is_target<A: Address>(segment: &Segment<A>, rules: &Rules) -> bool {
    let ([_, destination], [_, port]) = (segment.connection.addresses, segment.connection.ports);
    rules
        .targets()
        .include(destination, u16::from_be_bytes(port))
}

/// Keeps the challenge on, from the first request that was too many, while more come than allowed.
#[inline(always)]
fn hold<A: Address>(traffic: Traffic, was_on: bool, now: Instant, state: &impl ChallengeState<A>) {
    if !was_on {
        state.set_since(traffic, now);
        // Clients challenged for queries connect to the DNS port; and if verified sources are
        // preferred, the source of every packet matters.
        state.invalidate_next();
    } else if state.takes(traffic.shared(), now) {
        return;
    }
    let until = now.as_nanos().saturating_add(HOLD_NS);
    // Not with each packet, because all CPUs read it.
    if state.until(traffic).as_nanos().saturating_add(HOLD_NS / 16) < until {
        state.set_until(traffic, Instant::from_nanos(until));
    }
}

#[inline(always)]
fn take_proof<A: Address>(
    source: &A,
    segment: &Segment<A>,
    is_proof: impl FnOnce() -> bool,
    now: Instant,
    rules: &Rules,
    state: &impl ChallengeState<A>,
) -> Effect {
    let is_on = is_on(Traffic::Connections, rules, now, state)
        || is_for_queries(segment, rules, now, state);
    if !is_on || state.is_verified(source, now) || !is_proof() {
        return Effect::Unasked;
    }
    let until = now.as_nanos().saturating_add(rules.lasts_ns());
    let verified = Verified::here(Instant::from_nanos(until));
    let verified = if segment.is_reset() {
        verified.by_reset()
    } else {
        verified
    };
    state.verify(source, verified);
    Effect::Verified
}

#[inline(always)]
fn is_on<A: Address>(
    traffic: Traffic,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    is_wanted(traffic, rules, now, state) && now >= state.paused_until()
}

/// The time until which sources are certain to be challenged, at most as far ahead as [a source
/// stays verified](verified_cache::KEPT_NS).
#[inline(always)]
fn known_until<A: Address>(
    traffic: Traffic,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Instant {
    let at_most = Instant::from_nanos(now.as_nanos().saturating_add(verified_cache::KEPT_NS));
    if rules.is_always(traffic) {
        at_most
    } else {
        state.until(traffic).min(at_most)
    }
}

/// Whether it is on, unless it is paused.
#[inline(always)]
fn is_wanted<A: Address>(
    traffic: Traffic,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    rules.is_always(traffic) || rules.is_over(traffic) && now < state.until(traffic)
}

#[cfg(test)]
mod tests;
