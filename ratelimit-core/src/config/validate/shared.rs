//! Whether nodes can share the limits that are to be shared.

use crate::{
    config::{
        detection,
        document::Document,
        report::{At, Report},
    },
    diagnostic::Problem,
    limit::{LimitSpec, sharing},
};

/// Reports limits with `scope = "cluster"` that nodes cannot share.
pub fn check(document: &Document, report: &Report) {
    let detection = document.detection.as_ref();
    let of_attacks = detection.map_or(&[][..], |at| &at.value.limits);
    for At { spot, .. } in of_attacks.iter().filter(|at| is_shared(at)) {
        let message = "limits for attacks cannot be shared: each node detects attacks by itself";
        report.add(spot, Problem::new(message, "remove `scope`"));
    }
    let groups = document.groups();
    let groups = groups
        .iter()
        .filter(|group| group.title != detection::TITLE);
    let shared = groups.flat_map(|group| &group.limits).copied();
    let shared = shared.chain(&document.keys.limits);
    let shared: Vec<&At<LimitSpec>> = shared.filter(|at| is_shared(at)).collect();
    let Some(cluster) = &document.cluster else {
        if let Some(first) = shared.first() {
            let message = "a limit has scope = \"cluster\", and there is no [cluster]";
            let hint =
                "write [cluster] with `url`, `node`, `secret_file` and `nodes`, or remove `scope`";
            report.add(&first.spot, Problem::new(message, hint));
        }
        return;
    };
    let nodes = cluster.value.nodes;
    if nodes == 0 && !shared.is_empty() {
        let message = "[cluster] needs `nodes` because limits are shared";
        let hint = "write how many nodes there are, the same on all: nodes = 3";
        report.add(&cluster.spot, Problem::new(message, hint));
    }
    for At { value, spot } in shared {
        // A missing number of nodes is reported once, above.
        if let Some(problem) = sharing::problem(value, nodes.max(1)) {
            report.add(spot, problem);
        }
    }
}

fn is_shared(limit: &At<LimitSpec>) -> bool {
    limit.value.division().is_some()
}
