//! `rlctl limit`.

use std::sync::Arc;

use ratelimit_common::list::PolicyAction;
use ratelimit_core::{
    api::{Changed, LimitRequest, LimitTarget, LimitsNow, Refused},
    ban::BanSpec,
    config::Config,
    intent::{Edit, LimitRow, Target, overlay},
    limit::LimitSpec,
    prefix::Prefix,
};

use super::{Command, ban};
use crate::control::{
    controller::Controller,
    feeds::cluster::is_of_cluster,
    reports::{cause::Cause, rows},
    state::{State, fitting},
    time::expiry,
};

/// Sets runtime limits for a prefix or for the default policy.
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
        let until = expiry::until("a limit", request.seconds)?;
        let held = InForceBefore::of(&controller.state, target);
        require_scope(&held, &request, &author)?;
        let mut row = LimitRow {
            limits: request.limits,
            observe: request.observe,
            only: request.only,
            entry: rows::entry(until, request.reason, author),
        };
        if !row.only {
            add_to_row(&controller.state, target, &mut row);
        }
        fitting::check(&controller.state, target, &row)?;
        require_kept_classes(controller, &row.limits)?;
        let before = controller.state.scopes(target);
        let mut changed = controller
            .state
            .apply([Edit::Limits(target, Some(row))], Cause::Origin)?;
        let prefixes: Vec<Prefix> = target.sources().into_iter().collect();
        changed.allowed = ban::allowed(&controller.state, &prefixes);
        changed.limits = Some(held.now(&controller.state, target));
        let after = controller.state.scopes(target);
        changed.starts_anew = before.start_anew_as(&after);
        changed.until = expiry::reported(until);
        if changed.until.is_some() {
            let without = controller.state.scopes_without(target)?;
            changed.ends_anew = after.start_anew_as(&without);
        }
        Ok(changed)
    }
}

/// Removes runtime limits, including those set against an attack.
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
                "the limits of {} were set by {} for all nodes",
                name(target),
                row.entry.author
            ))
            .hint(
                "remove them everywhere with `rlctl limit rm --cluster`, or set other ones here \
                 with `rlctl limit set`",
            ));
        }
        let runtime = runtime.then_some(Edit::Limits(target, None));
        let further = further.map(|prefix| Edit::Limited(prefix, None));
        let edits: Vec<Edit> = runtime.into_iter().chain(further).collect();
        let before = controller.state.scopes(target);
        let held = InForceBefore::of(&controller.state, target);
        let mut changed = controller.state.apply(edits, Cause::User(author))?;
        changed.limits = Some(held.now(&controller.state, target));
        changed.starts_anew = before.start_anew_as(&controller.state.scopes(target));
        Ok(changed)
    }
}

/// The limits of a target before a change.
pub(super) struct InForceBefore {
    limits: Vec<LimitSpec>,
    observe: bool,
    ban: Option<BanSpec>,
}

impl InForceBefore {
    pub(super) fn of(state: &State, target: Target) -> Self {
        let held = state.intent.in_force(target);
        Self {
            limits: held.limits.into_owned(),
            observe: held.observe,
            ban: held.ban,
        }
    }

    /// Returns the current limits of the target, and the ones they replaced.
    pub(super) fn now(self, state: &State, target: Target) -> LimitsNow {
        let now = state.intent.in_force(target);
        let mut replaced = self.limits;
        replaced.retain(|limit| !now.limits.contains(limit));
        let action = state.intent.action_around(target);
        let drops = action != PolicyAction::Limit;
        let is_dry_run = match action {
            PolicyAction::Limit => now.observe,
            PolicyAction::Drop => false,
            PolicyAction::Observe => true,
        };
        let observe = is_dry_run || state.intent.config.observe;
        LimitsNow {
            replaced,
            ban: now.ban,
            ban_before: self.ban.filter(|_| now.ban.is_none()),
            drops,
            observe,
            observe_before: if drops { observe } else { self.observe },
            limits: now.limits.into_owned(),
        }
    }
}

/// Adds the request to the existing runtime limits of the target. Limits of this node alone are not
/// set on all nodes.
fn add_to_row(state: &State, target: Target, row: &mut LimitRow) {
    let Some(before) = state.intent.limits_of(target) else {
        return;
    };
    let limits = match (before.is_of_cluster(), row.is_of_cluster()) {
        (false, true) => return,
        (true, false) => state.intent.of_this_node(&before.limits),
        (true, true) | (false, false) => before.limits.clone(),
    };
    row.limits = overlay::merged(limits, &row.limits);
    row.only = before.only;
}

/// Refuses to replace a limit that all nodes share with one for each node.
fn require_scope(
    held: &InForceBefore,
    request: &LimitRequest,
    author: &str,
) -> Result<(), Refused> {
    if request.only || !is_of_cluster(author) {
        return Ok(());
    }
    let alone = || request.limits.iter().filter(|it| it.division().is_none());
    let mut shared = held.limits.iter().filter(|it| it.division().is_some());
    let replaced = shared.find(|shared| alone().any(|limit| limit.counts_as(shared)));
    replaced.map_or(Ok(()), |shared| {
        Err(Refused::because(format!(
            "each node would get its own limit instead of the shared {shared}"
        ))
        .hint("use `--scope cluster` for another shared limit, or `--only` for these limits alone"))
    })
}

/// Refuses cluster-wide limits that only this node would have.
fn require_own(limits: &[LimitSpec]) -> Result<(), Refused> {
    if limits.iter().all(|limit| limit.division().is_none()) {
        return Ok(());
    }
    Err(Refused::because("a shared limit must be set on all nodes")
        .hint("add `--cluster`, or remove `--scope cluster`"))
}

/// Refuses limits with classes that only the configuration on trial defines.
fn require_kept_classes(controller: &Controller, limits: &[LimitSpec]) -> Result<(), Refused> {
    let before = controller.feeds.trials.before();
    for class in limits.iter().filter_map(LimitSpec::class) {
        let is_lost = |before: &Config| before.classes.select(class).is_err();
        if before.as_ref().is_some_and(is_lost) {
            return Err(Refused::because(format!(
                "the class `{class}` exists only in the configuration on trial"
            ))
            .hint("run `rlctl confirm` first"));
        }
    }
    Ok(())
}

/// Refuses limits that cannot apply to all packets of a destination together.
fn require_totals(limits: &[LimitSpec]) -> Result<(), Refused> {
    if limits.iter().any(|limit| limit.compile().is_log()) {
        return Err(Refused::because(
            "a destination cannot use sliding-log: every CPU would write one log for every packet",
        )
        .hint("use algorithm=sliding-window or algorithm=token-bucket"));
    }
    Ok(())
}

/// Returns the target that the request names.
fn target(prefix: Option<Prefix>, destination: Option<Prefix>) -> Result<Target, Refused> {
    match (prefix, destination) {
        (Some(_), Some(_)) => Err(Refused::because("`prefix` and `destination` are exclusive")
            .hint("use `prefix` or `destination`")),
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
