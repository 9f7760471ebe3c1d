//! How much of its limits a source has used.

use std::time::Duration;

use ratelimit_common::{Instant, Record};

use super::policies::Named;
use crate::api::LimitState;

/// The state of each limit of a policy.
pub fn states<'a>(
    named: &'a Named,
    record: &'a Record,
    now: Instant,
) -> impl Iterator<Item = LimitState> + 'a {
    let limits = named.limits.iter().zip(named.policy.limits());
    limits
        .zip(&record.words)
        .map(move |((spec, limit), word)| LimitState {
            limit: *spec,
            used: limit.algorithm().used(*word, now),
            closes_in_seconds: Duration::from_nanos(limit.algorithm().closes_in_ns(*word, now))
                .as_secs_f64(),
        })
}
