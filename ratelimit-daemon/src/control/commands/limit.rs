//! `rlctl limit`.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_core::{
    api::{Changed, LimitRequest, LimitTarget, Refused},
    config::Config,
    intent::{Edit, LimitRow},
    limit::LimitSpec,
    prefix::Prefix,
};

use super::Command;
use crate::control::{
    controller::Controller, feeds::cluster::is_of_cluster, fitting, lifetime, record::Cause,
};

/// Gives a prefix, or the default policy, limits of its own.
pub struct SetLimits {
    /// What is asked for.
    pub request: LimitRequest,
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for SetLimits {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { request, author } = self;
        if !is_of_cluster(&author) {
            require_own(&request.limits)?;
        }
        fitting::check(&controller.state, &request.limits)?;
        require_kept_classes(controller, &request.limits)?;
        let until = lifetime::until("a limit", request.seconds)?;
        let row = LimitRow {
            limits: request.limits,
            observe: request.observe,
            until,
            since: Timestamp::now(),
            reason: request.reason,
            author: author.to_string(),
        };
        let before = controller.state.scopes(request.prefix);
        let mut changed = controller
            .state
            .apply([Edit::Limits(request.prefix, Some(row))], Cause::Origin)?;
        let after = controller.state.scopes(request.prefix);
        changed.starts_anew = before.start_anew_as(&after);
        changed.until = lifetime::reported(until);
        if changed.until.is_some() {
            let without = controller.state.scopes_without(request.prefix)?;
            changed.ends_anew = after.start_anew_as(&without);
        }
        Ok(changed)
    }
}

/// Takes runtime limits away, and those that an attack brought.
pub struct RemoveLimits {
    /// What is asked for.
    pub request: LimitTarget,
    /// Who asks.
    pub author: Arc<str>,
}

impl Command for RemoveLimits {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self { request, author } = self;
        let author = &*author;
        let further = request
            .prefix
            .filter(|prefix| controller.state.intent.limited().contains_key(prefix));
        let runtime = controller
            .state
            .intent
            .limits()
            .contains_key(&request.prefix);
        if !runtime && further.is_none() {
            return Err(none(request.prefix));
        }
        let row = controller.state.intent.limits().get(&request.prefix);
        if let Some(row) = row.filter(|row| is_of_cluster(&row.author)) {
            return Err(Refused::because(format!(
                "the limits of {} are of {}, and hold on all nodes",
                target(request.prefix),
                row.author
            ))
            .hint("run `rlctl limit rm` with `--cluster` to end them on all, or `rlctl limit set` for other ones here"));
        }
        let runtime = runtime.then_some(Edit::Limits(request.prefix, None));
        let further = further.map(|prefix| Edit::Limited(prefix, None));
        let edits: Vec<Edit> = runtime.into_iter().chain(further).collect();
        let before = controller.state.scopes(request.prefix);
        let mut changed = controller.state.apply(edits, Cause::User(author))?;
        changed.starts_anew = before.start_anew_as(&controller.state.scopes(request.prefix));
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

pub(super) fn none(prefix: Option<Prefix>) -> Refused {
    Refused::because(format!("no runtime limits of {}", target(prefix)))
}

fn target(prefix: Option<Prefix>) -> String {
    prefix.map_or_else(
        || "the default policy".to_owned(),
        |prefix| prefix.to_string(),
    )
}
