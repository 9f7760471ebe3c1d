//! Sources that prove themselves. While it is on, who opens a TCP connection from an address that is not known as verified is
//! answered by the program, and goes no further.
//!
//! The answer is a SYN-ACK whose acknowledgement is wrong on purpose: it is a [cookie] of both ends and the time. Who receives it
//! answers with a RST that carries it back as its sequence number (RFC 9293, 3.10.7.3), and is verified; the SYN that it sends again
//! passes. Who has forged its address receives nothing. Nothing is kept of a source before it is verified.
//!
//! Where [listeners are asked](Rules::asks_listeners), the SYN-ACK carries a cookie of the listener instead (a SYN cookie, RFC 4987, 3.6).
//! The acknowledgement of it verifies the source, and opens the connection too.
//!
//! A [query] of DNS is answered with nothing in it but that it is truncated, so an honest resolver asks over TCP, and proves itself there.
//!
//! # What is never answered
//!
//! Beyond a budget of all answers, and of those to one source, nothing is answered: the packet is judged as if there were no
//! challenge. An answer is never larger than its question, so nobody is hit harder by way of this host.

pub mod answer;
pub mod answer_limit;
mod at_a_glance;
pub mod cookie;
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
    at_a_glance::judge_quickly,
    cookie::{Key, Message},
    next_packets::Counted,
    rules::{Asked, OfCpu, On, PORTS_MAX, Rules, Shared, Taken, When},
    segment::{Place, Segment, segment, upper},
    state::ChallengeState,
    targets::{TARGETS_MAX, Targets},
    verified::Verified,
    verified_cache::VerifiedCache,
};
use crate::{
    Address, ClassSet, Cursor, Instant,
    parse::{LinkLayer, transport::UpperLayer},
};

/// How long it stays on after the last second in which there were too many connections asked for.
pub const HOLD_NS: u64 = 10_000_000_000;

/// What becomes of a packet by the challenge.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Outcome {
    /// It is judged as if there were none.
    Unasked,
    /// It asks for a connection, and is answered in place of the server.
    Challenged,
    /// It brings the cookie back: its source is verified.
    Verified,
    /// It is judged as if there were no challenge, and leaves the [reserve](crate::node::RESERVE_PART) of the node to verified sources.
    Unverified,
}

impl Outcome {
    /// The one with this number.
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

/// Challenges a segment of `source`, or takes its proof; else what its source is. `classes` answers the [classes](Rules::include_classes)
/// of the segment.
#[inline(always)]
pub fn judge<A: Address>(
    source: &A,
    segment: &Segment<A>,
    classes: impl FnOnce(bool) -> ClassSet,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Outcome {
    let Some(rules) = state.rules() else {
        return Outcome::Unasked;
    };
    let outcome = ask(source, segment, classes, now, rules, state);
    if outcome == Outcome::Unasked {
        standing(source, now, state)
    } else {
        outcome
    }
}

/// What the source of a packet is that is not challenged: `Unverified` or `Unasked`.
#[inline(always)]
pub fn standing<A: Address>(source: &A, now: Instant, state: &impl ChallengeState<A>) -> Outcome {
    let Some(rules) = state.rules() else {
        return Outcome::Unasked;
    };
    // While nobody has to prove anything, nobody can.
    if rules.prefers_verified()
        && is_on(Asked::Connections, rules, now, state)
        && !state.is_acknowledged(source, now)
    {
        Outcome::Unverified
    } else {
        Outcome::Unasked
    }
}

/// Challenges a datagram of `source` to this port, which [is a query](query::question_bytes) that can be answered or not; else what its source is.
#[inline(always)]
pub fn judge_datagram<A: Address>(
    source: &A,
    port: u16,
    is_query: impl FnOnce() -> bool,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Outcome {
    let Some(rules) = state.rules() else {
        return Outcome::Unasked;
    };
    if !rules.asks_queries_to(port) || now < state.suspended_until() {
        return standing(source, now, state);
    }
    let was_on = is_on(Asked::Queries, rules, now, state);
    let is_counted = !was_on && state.takes(Shared::Queries, now);
    // Where verified sources are preferred, it matters who sends while they can be.
    let source_matters =
        rules.prefers_verified() && is_wanted(Asked::Connections, rules, now, state);
    let counts_all = is_counted && !source_matters;
    state.set_counted(Asked::Queries, counts_all.then_some(Counted::All));
    if is_counted {
        return standing(source, now, state);
    }
    if state.is_verified(source, now) {
        let until = known_until(Asked::Queries, rules, now, state);
        state.set_passes_verified(Asked::Queries, until);
        return standing(source, now, state);
    }
    if rules.is_over(Asked::Queries) {
        hold(Asked::Queries, was_on, now, state);
    }
    if is_query() && takes_answer(source, now, state) {
        Outcome::Challenged
    } else if rules.prefers_verified() {
        Outcome::Unverified
    } else {
        Outcome::Unasked
    }
}

/// Whether the packet in `frame`, a cursor at its front, may be forged: its source has to prove itself, and has not, or by a RST alone.
/// Nothing is counted.
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
                || is_on(Asked::Connections, rules, now, state)
                    && is_target(&segment, rules)
                    && rules.include_classes(classes));
    }
    query::port(frame, upper).is_some_and(|port| rules.asks_queries_to(port))
        && is_on(Asked::Queries, rules, now, state)
        && !state.is_acknowledged(source, now)
}

/// Challenges a segment, or takes its proof.
#[inline(always)]
fn ask<A: Address>(
    source: &A,
    segment: &Segment<A>,
    classes: impl FnOnce(bool) -> ClassSet,
    now: Instant,
    rules: &Rules,
    state: &impl ChallengeState<A>,
) -> Outcome {
    if segment.is_reset() {
        let hash = |message: &Message| state.cookie(message);
        let is_proof = || cookie::is_valid(&segment.connection, segment.sequence, now, hash);
        return take_proof(source, segment, is_proof, now, rules, state);
    }
    if rules.asks_listeners() && segment.acknowledges() {
        let is_proof = || state.acknowledges_listener(segment);
        return take_proof(source, segment, is_proof, now, rules, state);
    }
    if !segment.asks_for_connection() || now < state.suspended_until() {
        return Outcome::Unasked;
    }
    let is_target = is_target(segment, rules) && rules.include_classes(classes);
    let was_on = is_target && is_on(Asked::Connections, rules, now, state);
    let is_over = is_target && rules.is_over(Asked::Connections);
    let is_on = was_on || is_over && !state.takes(Shared::Unverified, now);
    // What was drawn is for all that come next, unless it has to be known what they are.
    let counted = if is_wanted(Asked::Queries, rules, now, state) {
        Counted::ButToDns
    } else {
        Counted::All
    };
    let is_counted = is_over && rules.includes_all_classes() && !is_on;
    state.set_counted(Asked::Connections, is_counted.then_some(counted));
    if !is_on && !is_for_queries(segment, rules, now, state) {
        return Outcome::Unasked;
    }
    if state.is_verified(source, now) {
        if is_on {
            let until = known_until(Asked::Connections, rules, now, state);
            state.set_passes_verified(Asked::Connections, until);
        }
        return Outcome::Unasked;
    }
    if is_on && is_over {
        hold(Asked::Connections, was_on, now, state);
    }
    // A part is not answered, and goes no further: with the rest of it the server would answer.
    if !segment.is_whole() || takes_answer(source, now, state) {
        Outcome::Challenged
    } else {
        Outcome::Unasked
    }
}

/// Takes an answer to `source` of both budgets; `false` when one of them is spent.
#[inline(always)]
fn takes_answer<A: Address>(source: &A, now: Instant, state: &impl ChallengeState<A>) -> bool {
    let answers = state.may_answer(source, now) && state.takes(Shared::Answers, now);
    if !answers {
        state.count_unanswered();
    }
    answers
}

/// Whether a segment goes to a port that serves DNS while sources are challenged for queries: who is told to ask over TCP proves itself there.
#[inline(always)]
fn is_for_queries<A: Address>(
    segment: &Segment<A>,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    let [_, port] = segment.connection.ports;
    rules.asks_queries_to(u16::from_be_bytes(port)) && is_on(Asked::Queries, rules, now, state)
}

/// Whether what a segment asks for is one of what sources are challenged for.
#[inline(always)]
fn is_target<A: Address>(segment: &Segment<A>, rules: &Rules) -> bool {
    let ([_, destination], [_, port]) = (segment.connection.addresses, segment.connection.ports);
    rules
        .targets()
        .include(destination, u16::from_be_bytes(port))
}

/// Keeps it on: from the first that was too many, and while more come than may.
#[inline(always)]
fn hold<A: Address>(asked: Asked, was_on: bool, now: Instant, state: &impl ChallengeState<A>) {
    if !was_on {
        state.set_since(asked, now);
        // Who is challenged for queries connects to their port; and where verified sources are preferred, it matters who sends.
        state.forget_next();
    } else if state.takes(asked.shared(), now) {
        return;
    }
    let until = now.as_nanos().saturating_add(HOLD_NS);
    // Not with each packet: all CPUs read it.
    if state.until(asked).as_nanos().saturating_add(HOLD_NS / 16) < until {
        state.set_until(asked, Instant::from_nanos(until));
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
) -> Outcome {
    let is_on =
        is_on(Asked::Connections, rules, now, state) || is_for_queries(segment, rules, now, state);
    if !is_on || state.is_verified(source, now) || !is_proof() {
        return Outcome::Unasked;
    }
    let until = now.as_nanos().saturating_add(rules.lasts_ns());
    let verified = Verified::here(Instant::from_nanos(until));
    let verified = if segment.is_reset() {
        verified.by_reset()
    } else {
        verified
    };
    state.verify(source, verified);
    Outcome::Verified
}

#[inline(always)]
fn is_on<A: Address>(
    asked: Asked,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    is_wanted(asked, rules, now, state) && now >= state.suspended_until()
}

/// Until when sources are challenged, as far as that is known, and for no longer than [a source is](verified_cache::KEPT_NS).
#[inline(always)]
fn known_until<A: Address>(
    asked: Asked,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> Instant {
    let at_most = Instant::from_nanos(now.as_nanos().saturating_add(verified_cache::KEPT_NS));
    if rules.is_always(asked) {
        at_most
    } else {
        state.until(asked).min(at_most)
    }
}

/// Whether it is on, if it is not suspended.
#[inline(always)]
fn is_wanted<A: Address>(
    asked: Asked,
    rules: &Rules,
    now: Instant,
    state: &impl ChallengeState<A>,
) -> bool {
    rules.is_always(asked) || rules.is_over(asked) && now < state.until(asked)
}

#[cfg(test)]
mod tests;
