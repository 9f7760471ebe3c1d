//! `rlctl limit`.

use std::sync::Arc;

use jiff::Timestamp;
use ratelimit_common::limit::LIMITS_MAX;
use ratelimit_core::{
    api::{Changed, LimitRequest, LimitTarget, Refused},
    config::Config,
    intent::{self, Edit, LimitRow},
    limit::LimitSpec,
    prefix::Prefix,
};

use super::Command;
use crate::control::{controller::Controller, record::Cause, state::State, term};

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
        if request.limits.is_empty() {
            return Err(Refused::because("no limit was given")
                .hint("to let a source through unlimited, use `rlctl allow add`"));
        }
        if request.limits.len() > LIMITS_MAX {
            return Err(Refused::because(format!(
                "a policy has at most {LIMITS_MAX} limits"
            )));
        }
        let until = term::until("a limit", request.seconds)?;
        require_classes(controller, &request.limits)?;
        require_room(&controller.state, intent::longest(&request.limits))
            .map_err(|refused| {
                refused.hint(
                    "write a sliding-log of as many packets into the configuration and run `rlctl reload`, or use another \
                     algorithm",
                )
            })?;
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
        changed.until = term::told(until);
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
            return Err(Refused::because(format!(
                "no runtime limits of {}",
                target(request.prefix)
            )));
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

/// Refuses limits of classes that have no such name.
fn require_classes(controller: &Controller, limits: &[LimitSpec]) -> Result<(), Refused> {
    let classes = &controller.state.intent.config.classes;
    let before = controller.trials.before();
    for class in limits.iter().filter_map(LimitSpec::class) {
        if let Err(unknown) = classes.select(class) {
            let names: Vec<&str> = classes.names().collect();
            return Err(Refused::because(unknown.to_string())
                .hint(format!("write one of {}", names.join(", "))));
        }
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

/// Refuses sliding logs that are longer than those that room was made for.
fn require_room(state: &State, times: u32) -> Result<(), Refused> {
    let size = state.enforcer.datapath().log_size();
    if times <= size.times {
        return Ok(());
    }
    let room = match size.times {
        0 => "no room for sliding logs".to_owned(),
        times => format!("room for sliding logs of {times} packets"),
    };
    Err(Refused::because(format!(
        "a sliding-log of {times} packets is too long: their map is made with the configuration, and has {room}"
    )))
}

fn target(prefix: Option<Prefix>) -> String {
    prefix.map_or_else(
        || "the default policy".to_owned(),
        |prefix| prefix.to_string(),
    )
}
