//! The runtime limits that fit this host.

use ratelimit_common::limit::LIMITS_MAX;
use ratelimit_core::{
    api::Refused,
    intent::{self, LimitRow, Target},
    limit::{LimitSpec, sharing},
};

use super::State;

/// Refuses limits that this host cannot have, whoever sets them.
pub fn check(state: &State, target: Target, row: &LimitRow) -> Result<(), Refused> {
    let limits = &row.limits[..];
    if limits.is_empty() {
        return Err(Refused::because("no limit given")
            .hint("to exempt a source from limits, use `rlctl allow add`"));
    }
    let all = state.intent.with_row(target, row).limits.len();
    if all > LIMITS_MAX {
        let refused =
            Refused::because(format!("too many limits (maximum {LIMITS_MAX} per policy)"));
        return Err(if all == limits.len() {
            refused
        } else {
            refused.hint("replace the existing limits with `--only`")
        });
    }
    require_classes(state, limits)?;
    require_shareable(state, limits)?;
    require_room(state, intent::longest(limits))
}

/// Refuses limits of classes that have no such name.
fn require_classes(state: &State, limits: &[LimitSpec]) -> Result<(), Refused> {
    let classes = &state.intent.config.classes;
    for class in limits.iter().filter_map(LimitSpec::class) {
        if let Err(unknown) = classes.select(class) {
            let names: Vec<&str> = classes.names().collect();
            return Err(Refused::because(unknown.to_string())
                .hint(format!("use one of {}", names.join(", "))));
        }
    }
    Ok(())
}

/// Refuses limits for all nodes together where nodes cannot share them.
fn require_shareable(state: &State, limits: &[LimitSpec]) -> Result<(), Refused> {
    let cluster = state.intent.config.cluster.as_ref();
    let nodes = cluster.map_or(0, |cluster| cluster.nodes);
    let mut problems = limits.iter().filter_map(|it| sharing::problem(it, nodes));
    problems.next().map_or(Ok(()), |problem| {
        Err(Refused::because(problem.message).hint(problem.hint))
    })
}

/// Refuses sliding logs that are longer than those that room was made for.
fn require_room(state: &State, times: u32) -> Result<(), Refused> {
    let size = state.enforcer.datapath().sources.log_size();
    if times <= size.times {
        return Ok(());
    }
    let room = match size.times {
        0 => "no room for sliding logs".to_owned(),
        times => format!("room for sliding logs of {times} packets"),
    };
    Err(Refused::because(format!(
        "a sliding-log of {times} packets is too long: the configuration reserves {room}"
    ))
    .hint(
        "write a sliding-log of as many packets into the configuration and run `rlctl reload`, or \
         use another algorithm",
    ))
}
