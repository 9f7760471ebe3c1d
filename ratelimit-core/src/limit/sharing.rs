//! The limits that nodes can share.

use std::time::Duration;

use super::{Algorithm, LimitSpec};
use crate::diagnostic::Problem;

/// Explains why `nodes` nodes cannot share a limit; `None` if they can, or if each has the limit
/// for itself.
pub fn problem(limit: &LimitSpec, nodes: u32) -> Option<Problem> {
    limit.division()?;
    if let Algorithm::TokenBucket { burst } = limit.algorithm() {
        let message = "nodes cannot share a token-bucket: its level depends on a single rate";
        let instead = in_place_of_bucket(limit, burst);
        let instead = instead.map_or_else(
            || "write algorithm = \"sliding-window\"".to_owned(),
            |instead| format!("the closest equivalent is {instead}"),
        );
        return Some(Problem::new(
            message,
            format!("{instead}, or remove `scope`"),
        ));
    }
    if nodes == 0 {
        let message = "[cluster] needs `nodes` because limits are shared";
        let hint = "write how many nodes there are, the same on all: nodes = 3";
        return Some(Problem::new(message, hint));
    }
    (limit.amount() < nodes.into()).then(|| {
        let amount = limit.unit().amount(limit.amount());
        let message =
            format!("{nodes} nodes cannot share a limit of {amount}: each has at least 1");
        let hint = format!(
            "write at least {}, or remove `scope`",
            limit.unit().amount(nodes.into())
        );
        Problem::new(message, hint)
    })
}

/// A sliding window of the burst and the rate of a bucket; `None` if there is none.
fn in_place_of_bucket(bucket: &LimitSpec, burst: u64) -> Option<LimitSpec> {
    let nanos = bucket.window().as_nanos().checked_mul(burst.into())?;
    let nanos = nanos.checked_div(bucket.amount().into())?;
    let window = Duration::from_nanos(u64::try_from(nanos).ok()?);
    LimitSpec::new(burst, bucket.unit(), window, Algorithm::SlidingWindow).ok()
}
