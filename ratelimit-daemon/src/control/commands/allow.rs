//! `rlctl allow`.

use std::sync::Arc;

use ratelimit_core::{
    api::{AllowRequest, Changed, Code, PrefixesRequest, Refused},
    intent::Edit,
    ip_family::IpFamily,
    prefix::Prefix,
};

use super::{Command, distinct};
use crate::control::{
    controller::Controller,
    feeds::cluster::is_of_cluster,
    reports::{cause::Cause, rows},
    time::expiry,
};

/// Puts prefixes on the allow list.
pub struct Allow(pub AllowRequest, pub Arc<str>);

impl Command for Allow {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let prefixes = distinct(&request.prefixes)?;
        require_narrow(&prefixes, request.force)?;
        let until = expiry::until("an allow", request.seconds)?;
        let row = rows::entry(until, request.reason, author);
        let edit = |prefix: &Prefix| Edit::Allow(*prefix, Some(row.clone()));
        let edits: Vec<Edit> = prefixes.iter().map(edit).collect();
        let mut changed = controller.state.apply(edits, Cause::Origin)?;
        changed.until = expiry::reported(until);
        Ok(changed)
    }
}

/// Refuses prefixes so wide that nearly all traffic would bypass the limits, unless `forced`.
fn require_narrow(prefixes: &[Prefix], forced: bool) -> Result<(), Refused> {
    let widest = |prefix: &Prefix| match IpFamily::of(prefix.address()) {
        IpFamily::V4 => 8,
        IpFamily::V6 => 16,
    };
    let mut wide = prefixes.iter().filter(|it| it.len() < widest(it));
    match wide.next().filter(|_| !forced) {
        None => Ok(()),
        Some(prefix) => Err(Refused::because(format!(
            "{prefix} is wider than /{}, the widest that is allowed without --force",
            widest(prefix)
        ))
        .hint(
            "allow narrower prefixes, or use --force: no ban or limit applies to an allowed source",
        )
        .code(Code::TooWide)),
    }
}

/// Takes prefixes off the allow list that were added at runtime.
pub struct Disallow(pub PrefixesRequest, pub Arc<str>);

impl Command for Disallow {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let prefixes = distinct(&request.prefixes)?;
        require_runtime(controller, &prefixes)?;
        require_own(controller, &prefixes)?;
        disallow(controller, prefixes, &author)
    }
}

/// Removes the prefixes that are on the list, and reports those that are not.
pub(super) fn disallow(
    controller: &mut Controller,
    prefixes: Vec<Prefix>,
    author: &str,
) -> Result<Changed, Refused> {
    let is_there = |prefix: &Prefix| controller.state.intent.allows().contains_key(prefix);
    let (present, absent): (Vec<Prefix>, _) = prefixes.into_iter().partition(is_there);
    let edits = present.iter().map(|prefix| Edit::Allow(*prefix, None));
    let edits: Vec<Edit> = edits.collect();
    let changed = controller.state.apply(edits, Cause::User(author))?;
    Ok(Changed { absent, ..changed })
}

/// Refuses to remove allows of the configuration.
pub(super) fn require_runtime(controller: &Controller, prefixes: &[Prefix]) -> Result<(), Refused> {
    let intent = &controller.state.intent;
    let configured = |prefix: &&Prefix| {
        intent.config.allow.contains(prefix) && !intent.allows().contains_key(prefix)
    };
    match prefixes.iter().find(configured) {
        None => Ok(()),
        Some(prefix) => Err(Refused::because(format!(
            "{prefix} is on the allow list of the configuration"
        ))
        .hint("remove it there, and run `rlctl reload`")),
    }
}

/// Refuses to remove on this node alone what is allowed on all nodes.
fn require_own(controller: &Controller, prefixes: &[Prefix]) -> Result<(), Refused> {
    let allows = controller.state.intent.allows();
    let rows = prefixes
        .iter()
        .filter_map(|prefix| allows.get_key_value(prefix));
    let mut shared = rows.filter(|(_, row)| is_of_cluster(&row.author));
    match shared.next() {
        None => Ok(()),
        Some((prefix, row)) => Err(Refused::because(format!(
            "{prefix} is allowed by {}, on all nodes",
            row.author
        ))
        .hint("run `rlctl allow rm` with `--cluster` to end it on all of them")),
    }
}
