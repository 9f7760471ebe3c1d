//! `rlctl limit`.

use std::sync::Arc;

use ratelimit_core::{
    api::{Changed, LimitRequest, LimitTarget, Refused},
    config::Config,
    intent::{Edit, LimitRow, Target},
    limit::LimitSpec,
    prefix::Prefix,
};

use super::Command;
use crate::control::{
    cause::Cause, controller::Controller, feeds::cluster::is_of_cluster, fitting, lifetime, rows,
};

/// Gives a prefix, or the default policy, limits of its own.
pub struct SetLimits(pub LimitRequest, pub Arc<str>);

impl Command for SetLimits {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let target = target(request.prefix, request.destination)?;
        if !is_of_cluster(&author) {
            require_own(&request.limits)?;
        }
        if let Target::Destination(_) = target {
            require_totals(&request.limits)?;
        }
        fitting::check(&controller.state, &request.limits)?;
        require_kept_classes(controller, &request.limits)?;
        let until = lifetime::until("a limit", request.seconds)?;
        let row = LimitRow {
            limits: request.limits,
            observe: request.observe,
            entry: rows::entry(until, request.reason, author),
        };
        let before = controller.state.scopes(target);
        let mut changed = controller
            .state
            .apply([Edit::Limits(target, Some(row))], Cause::Origin)?;
        let after = controller.state.scopes(target);
        changed.starts_anew = before.start_anew_as(&after);
        changed.until = lifetime::reported(until);
        if changed.until.is_some() {
            let without = controller.state.scopes_without(target)?;
            changed.ends_anew = after.start_anew_as(&without);
        }
        Ok(changed)
    }
}

/// Takes runtime limits away, and those that an attack brought.
pub struct RemoveLimits(pub LimitTarget, pub Arc<str>);

impl Command for RemoveLimits {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let author = &*author;
        let target = target(request.prefix, request.destination)?;
        let further = target
            .sources()
            .filter(|prefix| controller.state.intent.limited().contains_key(prefix));
        let runtime = controller.state.intent.limits().contains_key(&target);
        if !runtime && further.is_none() {
            return Err(none(target));
        }
        let row = controller.state.intent.limits().get(&target);
        if let Some(row) = row.filter(|row| is_of_cluster(&row.entry.author)) {
            return Err(Refused::because(format!(
                "the limits of {} are of {}, and hold on all nodes",
                name(target),
                row.entry.author
            ))
            .hint("run `rlctl limit rm` with `--cluster` to end them on all, or `rlctl limit set` for other ones here"));
        }
        let runtime = runtime.then_some(Edit::Limits(target, None));
        let further = further.map(|prefix| Edit::Limited(prefix, None));
        let edits: Vec<Edit> = runtime.into_iter().chain(further).collect();
        let before = controller.state.scopes(target);
        let mut changed = controller.state.apply(edits, Cause::User(author))?;
        changed.starts_anew = before.start_anew_as(&controller.state.scopes(target));
        Ok(changed)
    }
}

/// Refuses limits for all nodes together that this one alone would have.
fn require_own(limits: &[LimitSpec]) -> Result<(), Refused> {
    if limits.iter().all(|limit| limit.division().is_none()) {
        return Ok(());
    }
    Err(
        Refused::because("a limit that all nodes share has to be set on all of them")
            .hint("write `--cluster` beside `--scope cluster`, or leave the scope out"),
    )
}

/// Refuses limits of classes that a trial alone has.
fn require_kept_classes(controller: &Controller, limits: &[LimitSpec]) -> Result<(), Refused> {
    let before = controller.trials.before();
    for class in limits.iter().filter_map(LimitSpec::class) {
        let is_lost = |before: &Config| before.classes.select(class).is_err();
        if before.as_ref().is_some_and(is_lost) {
            return Err(Refused::because(format!(
                "the class `{class}` is only in the configuration that waits for its confirmation"
            ))
            .hint("run `rlctl confirm` first"));
        }
    }
    Ok(())
}

/// Refuses limits that all packets to a destination cannot have together.
fn require_totals(limits: &[LimitSpec]) -> Result<(), Refused> {
    if limits.iter().any(|limit| limit.compile().is_log()) {
        return Err(Refused::because(
            "a destination cannot have a limit by sliding-log: one log would be written by every CPU for every packet",
        )
        .hint("write algorithm=sliding-window or algorithm=token-bucket"));
    }
    Ok(())
}

/// Whose limits are meant.
fn target(prefix: Option<Prefix>, destination: Option<Prefix>) -> Result<Target, Refused> {
    match (prefix, destination) {
        (Some(_), Some(_)) => Err(Refused::because(
            "limits are of sources or of a destination, not of both",
        )
        .hint("name `prefix` or `destination`")),
        (None, Some(destination)) => Ok(Target::Destination(destination)),
        (prefix, None) => Ok(prefix.into()),
    }
}

pub(super) fn none(target: Target) -> Refused {
    Refused::because(format!("no runtime limits of {}", name(target)))
}

fn name(target: Target) -> String {
    match target {
        Target::Default => "the default policy".to_owned(),
        Target::Sources(prefix) => prefix.to_string(),
        Target::Destination(prefix) => format!("the destination {prefix}"),
    }
}
