//! The status of the challenge.

use std::net::IpAddr;

use jiff::Timestamp;
use ratelimit_common::{
    Instant,
    challenge::{Traffic, Trigger},
};
use ratelimit_core::api::{ChallengeStatus, DnsChallengeStatus, PacketRequest, SourceChallenge};

use crate::{
    clock,
    control::{feeds::verified::VerifiedSources, state::State},
};

/// Returns the status of the challenge, if there is one.
pub(crate) fn challenge(state: &State, verified: &VerifiedSources) -> Option<ChallengeStatus> {
    let challenge = state.intent.config.challenge.as_ref()?;
    let (is_on, since) = on(Traffic::Connections, state)?;
    Some(ChallengeStatus {
        when: challenge.when(Traffic::Connections),
        to: challenge.to(),
        classes: challenge.of_classes(),
        method: challenge.way.name().to_owned(),
        lasts_seconds: challenge.lasts.as_secs_f64(),
        answers_per_second: challenge.answers.get(),
        is_on,
        since,
        prefers_verified: state.intent.config.node.prefers_verified,
        verified: verified.count(),
        unanswered_packets: state
            .enforcer
            .datapath()
            .challenge
            .unanswered()
            .unwrap_or_default(),
        paused_until: paused_until(state).map(clock::to_wall),
        dns: dns(state),
    })
}

/// Returns the end of the pause of the challenge after no client completed it.
pub(crate) fn paused_until(state: &State) -> Option<Instant> {
    let until = state.enforcer.datapath().challenge.paused_until().ok();
    until.filter(|until| clock::now() < *until)
}

/// Returns how the challenge affects such packets of a source.
pub(crate) fn of_source(
    state: &State,
    source: IpAddr,
    packet: &PacketRequest,
) -> Option<SourceChallenge> {
    let challenge = state.intent.config.challenge.as_ref()?;
    let is_of = packet.is_challenged(challenge, &state.intent.config.classes);
    let (is_on, since) = on(Traffic::Connections, state)?;
    let verified = state
        .enforcer
        .datapath()
        .challenge
        .verified(source)
        .ok()
        .flatten();
    let verified = verified.filter(|it| clock::now() < it.until());
    Some(SourceChallenge {
        verified_until: verified.map(|it| clock::to_wall(it.until())),
        is_acknowledged: verified.is_some_and(|it| !it.is_by_reset()),
        is_on: is_on && is_of,
        to: challenge.to(),
        classes: challenge.of_classes(),
        since: since.filter(|_| is_of),
        prefers_verified: state.intent.config.node.prefers_verified,
        dns: dns(state),
    })
}

/// Returns the status of the challenge for DNS clients.
fn dns(state: &State) -> Option<DnsChallengeStatus> {
    let challenge = state.intent.config.challenge.as_ref()?;
    if challenge.queries == Trigger::Never {
        return None;
    }
    let (is_on, since) = on(Traffic::Queries, state)?;
    Some(DnsChallengeStatus {
        when: challenge.when(Traffic::Queries),
        ports: challenge.ports().collect(),
        is_on,
        since,
    })
}

/// Returns whether it is on, and its beginning, if known.
fn on(traffic: Traffic, state: &State) -> Option<(bool, Option<Timestamp>)> {
    if paused_until(state).is_some() {
        return Some((false, None));
    }
    match state.intent.config.challenge.as_ref()?.of(traffic) {
        Trigger::Never => return Some((false, None)),
        Trigger::Always => return Some((true, None)),
        Trigger::Over(_) => {}
    }
    let taken = state.enforcer.datapath().challenge.taken();
    let on = taken.unwrap_or_default().of(traffic);
    let is_on = clock::now() < Instant::from_nanos(on.until_ns);
    let since = is_on.then(|| clock::to_wall(Instant::from_nanos(on.since_ns)));
    Some((is_on, since))
}
