//! What is reported of the challenge of TCP sources.

use std::net::IpAddr;

use jiff::Timestamp;
use ratelimit_common::Instant;
use ratelimit_core::api::{ChallengeStatus, SourceChallenge};

use crate::{clock, control::state::State};

/// The challenge; `None` where there is none.
pub(in crate::control) fn challenge(state: &State) -> Option<ChallengeStatus> {
    let challenge = state.intent.config.challenge?;
    let (is_on, since) = on(state)?;
    Some(ChallengeStatus {
        when: challenge.when(),
        way: challenge.way.name().to_owned(),
        lasts_seconds: challenge.lasts.as_secs_f64(),
        answers: challenge.answers.get(),
        is_on,
        since,
        prefers_verified: state.intent.config.node.prefers_verified,
    })
}

/// What it is to a source.
pub(in crate::control) fn of_source(state: &State, source: IpAddr) -> Option<SourceChallenge> {
    let (is_on, since) = on(state)?;
    let verified = state.enforcer.datapath().verified_until(source);
    let verified = verified.ok().flatten();
    Some(SourceChallenge {
        verified_until: verified
            .filter(|until| clock::now() < *until)
            .map(clock::to_wall),
        is_on,
        since,
        prefers_verified: state.intent.config.node.prefers_verified,
    })
}

/// Whether it is on, and since when, where that is known.
fn on(state: &State) -> Option<(bool, Option<Timestamp>)> {
    let challenge = state.intent.config.challenge?;
    if challenge.over.is_none() {
        return Some((true, None));
    }
    let taken = state.enforcer.datapath().challenge_taken();
    let taken = taken.unwrap_or_default();
    let is_on = clock::now() < Instant::from_nanos(taken.until_ns);
    let since = is_on.then(|| clock::to_wall(Instant::from_nanos(taken.since_ns)));
    Some((is_on, since))
}
