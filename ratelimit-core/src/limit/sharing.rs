//! Which limits nodes can share.

use super::{Algorithm, LimitSpec};
use crate::diagnostic::Problem;

/// Why `nodes` nodes cannot share a limit; `None` where they can, or each has it for itself.
#[must_use]
pub fn problem(limit: &LimitSpec, nodes: u32) -> Option<Problem> {
    limit.division()?;
    if matches!(limit.algorithm(), Algorithm::TokenBucket { .. }) {
        let message =
            "nodes do not share a token-bucket: what is missing in it depends on one rate";
        let hint = "write algorithm = \"sliding-window\", which needs no burst, or remove `scope`";
        return Some(Problem::new(message, hint));
    }
    if nodes == 0 {
        let message = "[cluster] has no `nodes`, and nodes share limits";
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
