//! `rlctl allow` and `rlctl limit` with `--cluster`: here, and on all other nodes.

use std::sync::Arc;

use ratelimit_core::{
    api::{AllowRequest, Changed, LimitRequest, LimitTarget, PrefixesRequest, Refused},
    intent::{Edit, Target},
    prefix::Prefix,
};
use tracing::info;

use super::{
    Command,
    allow::{Allow, disallow, require_runtime},
    distinct,
    limit::{InForceBefore, SetLimits, none},
};
use crate::control::{
    controller::Controller,
    feeds::cluster::{allow_of, limits_of},
    reports::cause::Cause,
};

/// Puts prefixes on the allow lists of all nodes.
pub struct AllowEverywhere(pub AllowRequest, pub Arc<str>);

impl Command for AllowEverywhere {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let node = controller.feeds.cluster.author()?;
        let prefixes = distinct(&request.prefixes)?;
        let Controller { feeds, state, .. } = &mut *controller;
        feeds.cluster.require_allows(state, &prefixes)?;
        let subjects = prefixes.iter().copied().map(allow_of);
        let unheard = subjects.map(|it| (feeds.cluster.unheard_end(state, &it), it));
        let subjects: Vec<_> = unheard.collect();
        let mut changed = Allow(request, node.into()).run(controller)?;
        let Controller { feeds, state, .. } = controller;
        changed.waits_for_store = feeds.cluster.waits_for_store();
        for (unheard, subject) in &subjects {
            feeds.cluster.say(state, subject, *unheard);
        }
        feeds.cluster.write_down();
        let named = prefixes.len();
        info!(%author, prefixes = named, "allowed on all nodes");
        Ok(changed)
    }
}

/// Takes prefixes off the allow lists of all nodes.
pub struct DisallowEverywhere(pub PrefixesRequest, pub Arc<str>);

impl Command for DisallowEverywhere {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let prefixes = distinct(&request.prefixes)?;
        controller.feeds.cluster.author()?;
        require_runtime(controller, &prefixes)?;
        // The other order would let a kill in between bring them back.
        let mut stated = prefixes.clone();
        let Controller { feeds, state, .. } = controller;
        stated.retain(|prefix| feeds.cluster.lift_change(state, allow_of(*prefix), &author));
        controller.feeds.cluster.write_down();
        let mut changed = disallow(controller, prefixes, &author)?;
        let not_here = changed.absent.len();
        changed.absent.retain(|prefix| !stated.contains(prefix));
        changed.removed += not_here - changed.absent.len();
        changed.waits_for_store = controller.feeds.cluster.waits_for_store();
        info!(%author, "removed from the allow list on all nodes");
        Ok(changed)
    }
}

/// Gives a prefix, or the default policy, limits of its own on all nodes.
pub struct LimitEverywhere(pub LimitRequest, pub Arc<str>);

impl Command for LimitEverywhere {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let node = controller.feeds.cluster.author()?;
        require_sources(request.destination)?;
        let (target, reason) = (request.prefix, request.reason.as_deref());
        let Controller { feeds, state, .. } = &mut *controller;
        feeds
            .cluster
            .require_limits(state, target, &request.limits, reason)?;
        let subject = limits_of(target);
        let unheard = feeds.cluster.unheard_end(state, &subject);
        let mut changed = SetLimits(request, node.into()).run(controller)?;
        let Controller { feeds, state, .. } = controller;
        changed.waits_for_store = feeds.cluster.waits_for_store();
        feeds.cluster.say(state, &subject, unheard);
        feeds.cluster.write_down();
        info!(%author, "limits of all nodes were set");
        Ok(changed)
    }
}

/// Refuses limits of a destination.
fn require_sources(destination: Option<Prefix>) -> Result<(), Refused> {
    destination.map_or(Ok(()), |prefix| {
        Err(Refused::because(format!(
            "limits of destination {prefix} cannot be set on all nodes: other nodes may not \
             receive its packets"
        ))
        .hint("run it without `--cluster` on each node"))
    })
}

/// Takes runtime limits away on all nodes.
pub struct RemoveLimitsEverywhere(pub LimitTarget, pub Arc<str>);

impl Command for RemoveLimitsEverywhere {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        require_sources(request.destination)?;
        controller.feeds.cluster.author()?;
        let Controller { feeds, state, .. } = controller;
        let is_stated = feeds
            .cluster
            .lift_change(state, limits_of(request.prefix), &author);
        let target = Target::from(request.prefix);
        controller.feeds.cluster.write_down();
        if !controller.state.intent.limits().contains_key(&target) {
            let changed = Changed {
                removed: 1,
                waits_for_store: controller.feeds.cluster.waits_for_store(),
                ..Changed::default()
            };
            return is_stated.then_some(changed).ok_or_else(|| none(target));
        }
        let before = controller.state.scopes(target);
        let held = InForceBefore::of(&controller.state, target);
        let edit = Edit::Limits(target, None);
        let mut changed = controller.state.apply([edit], Cause::User(&author))?;
        changed.limits = Some(held.now(&controller.state, target));
        changed.starts_anew = before.start_anew_as(&controller.state.scopes(target));
        changed.waits_for_store = controller.feeds.cluster.waits_for_store();
        info!(%author, "limits of all nodes were removed");
        Ok(changed)
    }
}
