//! `rlctl suggest`: limits derived from past traffic.

use jiff::Timestamp;
use ratelimit_common::algorithm::sliding_log::TIMES_MAX;
use ratelimit_core::{
    api::{Refused, SuggestRequest, Suggested, SuggestedLimit},
    limit::{Algorithm, LimitSpec},
    policies::is_detected,
    quantity,
};

use super::limits;
use crate::{
    clock,
    control::{
        controller::Controller,
        persistence::store::usage_histogram::{Measured, Seen},
        sources::history::{HOURS_KEPT, this_hour},
    },
};

/// The windows required beyond a percentile to make it meaningful.
const BEYOND: f64 = 10.0;

/// Suggests limits that would have admitted the requested share of all windows, with headroom.
pub fn suggest(controller: &Controller, request: &SuggestRequest) -> Result<Suggested, Refused> {
    check(request)?;
    let (state, history) = (&controller.state, &controller.scans.history);
    #[expect(clippy::cast_possible_truncation, reason = "at most a week")]
    let hours = (request.since_seconds / 3600.0).ceil() as i64;
    let (first, mut seen) =
        history.seen_since(&state.kept.store, this_hour() - hours.min(HOURS_KEPT))?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "at most a million"
    )]
    let needed = (BEYOND * 100.0 / (100.0 - request.percentile)).ceil() as u64;
    let mut limits = Vec::new();
    for view in limits::limits(state) {
        let is_measured = state.compiled.policies.get(&view.name).is_some();
        if !is_measured || is_detected(&view.name) {
            continue;
        }
        for limit in &view.limits {
            let seen = seen.remove(&Measured::new(&view.name, limit));
            let seen = seen.unwrap_or_else(Seen::new);
            limits.push(suggested(&view.name, limit, &seen, needed, request));
        }
    }
    let most = limits.iter().map(|it| it.windows).max().unwrap_or_default();
    if most < needed {
        let length = first.map(|since| quantity::duration(age(since)));
        return Err(Refused::because(format!(
            "too few samples: {most} windows of the busiest limit in {}, the {}th percentile needs \
             {needed}",
            length.as_deref().unwrap_or("0s"),
            request.percentile,
        ))
        .hint(
            "try again later or with a lower --percentile; only traffic counted by a limit is \
             sampled",
        ));
    }
    Ok(Suggested {
        since: first.unwrap_or(controller.about.started),
        percentile: request.percentile,
        headroom: request.headroom,
        policies: limits::limits(state)
            .into_iter()
            .filter(|view| limits.iter().any(|it| it.policy == view.name))
            .collect(),
        limits,
    })
}

fn check(request: &SuggestRequest) -> Result<(), Refused> {
    if !(1.0..=99.99).contains(&request.percentile) {
        return Err(Refused::because(format!(
            "the percentile {} is not between 1 and 99.99",
            request.percentile
        )));
    }
    if !(1.0..=100.0).contains(&request.headroom) {
        return Err(Refused::because(format!(
            "the headroom {} is not between 1 and 100",
            request.headroom
        )));
    }
    Ok(())
}

fn suggested(
    policy: &str,
    limit: &LimitSpec,
    seen: &Seen,
    needed: u64,
    request: &SuggestRequest,
) -> SuggestedLimit {
    let windows = seen.held.len();
    let at = seen.held.value_at_percentile(request.percentile);
    #[expect(clippy::cast_precision_loss, reason = "shares")]
    let at_least = seen.full as f64 > windows as f64 * (1.0 - request.percentile / 100.0);
    let base = if at_least {
        at.max(limit.capacity())
    } else {
        at
    };
    let enough = windows >= needed;
    let proposed = enough.then(|| with_capacity(limit, rounded(base, request.headroom)));
    SuggestedLimit {
        policy: policy.to_owned(),
        limit: limit.clone(),
        windows,
        sources: seen.sources,
        median: seen.held.value_at_percentile(50.0),
        at,
        most: seen.held.max(),
        full: seen.full,
        at_least: at_least && enough,
        proposed: proposed.flatten(),
    }
}

/// Multiplies, and rounds up to a number of two digits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "two digits are kept"
)]
fn rounded(amount: u64, headroom: f64) -> u64 {
    let wanted = (amount as f64 * headroom).ceil() as u64;
    let mut unit = 1;
    while wanted / unit >= 100 {
        unit *= 10;
    }
    (wanted.div_ceil(unit) * unit).max(1)
}

/// Returns the limit with another amount or, for a bucket, another burst.
fn with_capacity(limit: &LimitSpec, capacity: u64) -> Option<LimitSpec> {
    let (amount, algorithm) = match limit.algorithm() {
        Algorithm::TokenBucket { .. } => {
            (limit.amount(), Algorithm::TokenBucket { burst: capacity })
        }
        Algorithm::SlidingLog => (capacity.min(TIMES_MAX.into()), Algorithm::SlidingLog),
        other @ (Algorithm::FixedWindow | Algorithm::SlidingWindow) => (capacity, other),
    };
    let spec = LimitSpec::new(amount, limit.unit(), limit.window(), algorithm).ok()?;
    Some(match limit.class() {
        Some(class) => spec.of_class(class.clone()),
        None => spec,
    })
}

fn age(since: Timestamp) -> std::time::Duration {
    let age = clock::wall().duration_since(since).as_secs().max(0);
    std::time::Duration::from_secs(age.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use ratelimit_core::limit::LimitUnit;

    #[test]
    fn a_proposal_is_the_percentile_with_headroom_in_two_digits() {
        let mut seen = Seen::new();
        (1..=10_000).for_each(|held| seen.held.record(held).unwrap());
        let reported = suggested("default", &limit(20_000), &seen, 1000, &request());
        assert_eq!(reported.windows, 10_000);
        assert!((9_900..=9_999).contains(&reported.at), "{}", reported.at);
        assert!(
            (5_000..=5_050).contains(&reported.median),
            "{}",
            reported.median
        );
        assert!(!reported.at_least);
        let proposed = reported.proposed.unwrap().amount();
        assert_eq!(proposed % 1_000, 0);
        assert!((19_800..=20_000).contains(&proposed), "{proposed}");
    }

    #[test]
    fn windows_that_are_full_say_that_it_is_at_least_the_limit() {
        let mut seen = Seen::new();
        seen.held.record_n(5, 980).unwrap();
        seen.held.record_n(50, 20).unwrap();
        seen.full = 20;
        let reported = suggested("default", &limit(50), &seen, 1000, &request());
        assert!(reported.at_least);
        assert_eq!(reported.proposed.unwrap().amount(), 100);
        seen.full = 9;
        assert!(!suggested("default", &limit(60), &seen, 1000, &request()).at_least);
    }

    #[test]
    fn too_few_windows_propose_nothing() {
        let mut seen = Seen::new();
        seen.held.record_n(5, 999).unwrap();
        let reported = suggested("default", &limit(50), &seen, 1000, &request());
        assert_eq!((reported.windows, reported.proposed), (999, None));
    }

    #[test]
    fn of_a_bucket_the_burst_is_proposed() {
        let bucket = Algorithm::TokenBucket { burst: 500 };
        let bucket =
            LimitSpec::new(100, LimitUnit::Packets, Duration::from_secs(1), bucket).unwrap();
        let larger = with_capacity(&bucket, 40).unwrap();
        assert_eq!((larger.amount(), larger.capacity()), (100, 40));
    }

    fn request() -> SuggestRequest {
        SuggestRequest {
            percentile: 99.0,
            headroom: 2.0,
            since_seconds: 86_400.0,
        }
    }

    fn limit(amount: u64) -> LimitSpec {
        let second = Duration::from_secs(1);
        LimitSpec::new(amount, LimitUnit::Packets, second, Algorithm::FixedWindow).unwrap()
    }
}
