//! `rlctl ban` and `rlctl unban`.

use std::{collections::BTreeSet, sync::Arc};

use ratelimit_core::{
    api::{
        BanRequest, Changed, EntryCounter, Held, PrefixesRequest, Refused, UnbanMatchingRequest,
    },
    intent::Edit,
    origin::Origin,
    prefix::Prefix,
};

use super::{Command, distinct};
use crate::{
    clock,
    control::{cause::Cause, controller::Controller, lifetime, rows, state::State},
    protected::Requester,
};

/// Bans prefixes: all of them, or none.
pub struct Ban(pub BanRequest, pub Arc<str>);

impl Command for Ban {
    type Answer = Result<Changed, Refused>;
    const SHARES_TRANSACTION: bool = true;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let prefixes = distinct(&request.prefixes)?;
        let until = lifetime::until("a ban", request.seconds)?;
        let requester = Requester::Operator {
            forced: request.force,
        };
        for prefix in &prefixes {
            controller.state.protection.vet(*prefix, requester)?;
        }
        let row = rows::entry(until, request.reason, author);
        let (origin, other) = if request.force {
            (Origin::Forced, Origin::Manual)
        } else {
            (Origin::Manual, Origin::Forced)
        };
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), Some(row.clone()));
        let mut edits: Vec<Edit> = prefixes.iter().map(edit).collect();
        // What is typed last holds, also in place of a longer ban.
        let replaced = |prefix: &&Prefix| {
            controller
                .state
                .intent
                .bans_of(**prefix)
                .any(|(own, _)| *own == other)
        };
        let replaced = prefixes.iter().filter(replaced);
        edits.extend(replaced.map(|prefix| Edit::Ban(*prefix, other.clone(), None)));
        let mut changed = controller.state.apply(edits, Cause::Origin)?;
        changed.added -= changed.removed;
        changed.updated += std::mem::take(&mut changed.removed);
        changed.until = lifetime::reported(until);
        Ok(changed)
    }
}

/// Ends the bans of prefixes, of whatever origin but lists: those are reported, as are the bans of wider prefixes.
pub struct Unban(pub PrefixesRequest, pub Arc<str>);

impl Command for Unban {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let author = &*author;
        let prefixes = distinct(&request.prefixes)?;
        // What the kernel has banned a moment ago is ended as well.
        controller.detections.look_again();
        controller.detections.adopt(&mut controller.state)?;
        let mut unbanned = Changed::default();
        let mut edits = Vec::new();
        for prefix in prefixes.iter().copied() {
            let origins = controller
                .state
                .intent
                .bans_of(prefix)
                .map(|(origin, _)| origin);
            let ended = edits.len();
            edits.extend(
                origins
                    .filter(|origin| !matches!(origin, Origin::List(_)))
                    .map(|origin| Edit::Ban(prefix, origin.clone(), None)),
            );
            if edits.len() > ended {
                let offence = controller.state.intent.offence(prefix);
                edits.extend(offence.map(|_| Edit::Offence(prefix, None)));
                unbanned.removed += 1;
            } else {
                unbanned.absent.push(prefix);
            }
        }
        let Controller { cluster, state, .. } = controller;
        let lifts = cluster.lifts(state, prefixes.iter().copied());
        state.apply(edits, Cause::User(author))?;
        // What is not in force here may be so on other nodes.
        let stated = cluster.lift(lifts, author);
        let not_here = unbanned.absent.len();
        unbanned.absent.retain(|prefix| !stated.contains(prefix));
        unbanned.removed += not_here - unbanned.absent.len();
        // Those that were ended together with it hold no more.
        let named = prefixes.into_iter();
        unbanned.held = named
            .flat_map(|prefix| held(&controller.state, prefix))
            .collect();
        Ok(unbanned)
    }
}

/// Ends all bans that a filter has, but those of lists.
pub struct UnbanMatching(pub UnbanMatchingRequest, pub Arc<str>);

impl Command for UnbanMatching {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let UnbanMatchingRequest { filter, all } = self.0;
        if filter.has_all() && !all {
            return Err(
                Refused::because("a filter that says nothing has every ban").hint("say so: --all")
            );
        }
        controller.detections.look_again();
        controller.detections.adopt(&mut controller.state)?;
        let now = clock::wall();
        let bans = controller.state.intent.bans().iter();
        let ended = bans.filter(|((prefix, origin), row)| {
            !matches!(origin, Origin::List(_))
                && filter.has(
                    &rows::ban(*prefix, origin, row, EntryCounter::default()),
                    now,
                )
        });
        let mut edits: Vec<Edit> = ended
            .map(|((prefix, origin), _)| Edit::Ban(*prefix, origin.clone(), None))
            .collect();
        let removed = edits.len();
        let prefixes: BTreeSet<Prefix> = edits.iter().flat_map(Edit::prefixes).collect();
        let offences = prefixes.iter().copied();
        let offences = offences.filter(|it| controller.state.intent.offence(*it).is_some());
        edits.extend(offences.map(|prefix| Edit::Offence(prefix, None)));
        let Controller { cluster, state, .. } = controller;
        let mut lifts = cluster.lifts(state, prefixes);
        state.apply(edits, Cause::User(&self.1))?;
        // A ban of another origin goes on holding, here and on the other nodes.
        lifts.retain(|lift| state.intent.bans_of(lift.prefix).next().is_none());
        cluster.lift(lifts, &self.1);
        let within = filter.within.into_iter();
        Ok(Changed {
            removed,
            held: within.flat_map(|it| held(&controller.state, it)).collect(),
            ..Changed::default()
        })
    }
}

/// The bans that hold for all of a prefix, but for one that is allowed.
fn held(state: &State, prefix: Prefix) -> Vec<Held> {
    let (now, said) = (clock::now(), state.compiled.rules.sum(prefix));
    if !said.is_banned(now) || said.is_allowed(now) {
        return Vec::new();
    }
    // Others stop at an address that is protected.
    let is_exempt = prefix.is_address() && state.protection.why(prefix.address()).is_some();
    let bans = state.intent.bans_that_hold(prefix, now);
    bans.filter(|(_, origin)| !is_exempt || *origin == Origin::Forced)
        .map(|(banned, origin)| Held {
            prefix,
            banned,
            origin,
        })
        .collect()
}
