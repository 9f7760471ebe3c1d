//! `rlctl ban` and `rlctl unban`.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ratelimit_common::Instant;
use ratelimit_core::{
    api::{
        Allowed, BanRequest, Changed, EntryCounter, LongerBan, Refused, RemainingBan,
        UnbanMatchingRequest, UnbanRequest,
    },
    intent::{Edit, FOREVER},
    origin::Origin,
    prefix::Prefix,
};

use super::{Command, distinct};
use crate::{
    clock,
    control::{
        controller::Controller,
        feeds::propose,
        reports::{cause::Cause, rows},
        state::State,
        time::expiry,
    },
    protected::Requester,
};

/// Bans all of the prefixes, or none.
pub struct Ban(pub BanRequest, pub Arc<str>);

impl Command for Ban {
    type Answer = Result<Changed, Refused>;
    const SHARES_TRANSACTION: bool = true;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let state = &controller.state;
        let sources = sources(state, &request.sources);
        let mut prefixes = distinct(&[&request.prefixes[..], &sources].concat())?;
        let until = until(state, request.seconds, request.forever)?;
        let requester = Requester::Operator {
            forced: request.force,
        };
        vet(state, &prefixes, requester, &request.sources)?;
        let now = clock::now();
        let kept = request.seconds.is_none() && !request.forever;
        let longer = prefixes.iter().filter_map(|prefix| {
            let bans = state.intent.bans_of(*prefix);
            let own = bans.filter(|(origin, _)| matches!(origin, Origin::Manual | Origin::Forced));
            let last = own.map(|(_, row)| row.until).max()?;
            (last > until.max(now)).then_some(LongerBan {
                prefix: *prefix,
                until: expiry::reported(last),
                kept,
            })
        });
        let longer: Vec<LongerBan> = longer.collect();
        let allowed = allowed(state, &prefixes);
        // A ban without a duration never shortens an existing one.
        prefixes.retain(|prefix| !kept || longer.iter().all(|longer| longer.prefix != *prefix));
        let row = rows::entry(until, request.reason, author);
        let (origin, other) = if request.force {
            (Origin::Forced, Origin::Manual)
        } else {
            (Origin::Manual, Origin::Forced)
        };
        let edit = |prefix: &Prefix| Edit::Ban(*prefix, origin.clone(), Some(row.clone()));
        let mut edits: Vec<Edit> = prefixes.iter().map(edit).collect();
        // A duration given last replaces even a longer ban.
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
        Ok(Changed {
            until: expiry::reported(until),
            waits_for_store: controller.feeds.cluster.waits_for_store(),
            sources,
            longer,
            allowed,
            ..changed
        })
    }
}

/// Returns the sources that the addresses belong to.
pub(super) fn sources(state: &State, addresses: &[IpAddr]) -> Vec<Prefix> {
    let source = &state.intent.config.source;
    let sources = addresses.iter().map(|address| source.around(*address));
    sources.collect()
}

/// Returns the end of a ban that lasts `seconds`, forever, or as long as the configuration says.
pub(super) fn until(
    state: &State,
    seconds: Option<f64>,
    forever: bool,
) -> Result<Instant, Refused> {
    match (seconds, forever) {
        (Some(_), true) => Err(Refused::because("`seconds` and `forever` are exclusive")
            .hint("remove `seconds` or `forever`")),
        (None, false) => {
            let lifetime = state.intent.config.ban_for;
            Ok(lifetime.map_or(FOREVER, clock::after))
        }
        (seconds, _) => expiry::until("a ban", seconds),
    }
}

/// Refuses bans of protected prefixes. If an address was named and its whole source would be
/// banned, the hint says how to ban only the address.
pub(super) fn vet(
    state: &State,
    prefixes: &[Prefix],
    requester: Requester,
    addresses: &[IpAddr],
) -> Result<(), Refused> {
    for prefix in prefixes {
        state
            .protection
            .vet(*prefix, requester)
            .map_err(|refused| {
                let address = addresses.iter().find(|address| {
                    let source = state.intent.config.source.around(**address);
                    source == *prefix && !source.is_address()
                });
                let Some(address) = address else {
                    return refused;
                };
                let bits = if address.is_ipv4() { 32 } else { 128 };
                let alone = format!("`{address}/{bits}` bans that address alone");
                refused.hint(format!("{prefix} is the source of {address}: {alone}"))
            })?;
    }
    Ok(())
}

/// Returns the prefixes that are allowed.
pub(super) fn allowed(state: &State, prefixes: &[Prefix]) -> Vec<Allowed> {
    let now = clock::now();
    let allowed = prefixes.iter().filter_map(|prefix| {
        let by = state.intent.allowed_by(*prefix, now)?;
        Some(Allowed {
            prefix: *prefix,
            by,
        })
    });
    allowed.collect()
}

/// Ends the bans of prefixes, whatever their origin. Bans of lists and of wider prefixes stay and
/// are reported.
pub struct Unban(pub UnbanRequest, pub Arc<str>);

impl Command for Unban {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let Self(request, author) = self;
        let author = &*author;
        // Adopt recent bans of the kernel first, so that they end too.
        controller.feeds.policy_bans.force_check();
        propose(&mut controller.feeds.policy_bans, &mut controller.state)?;
        let prefixes = named(
            &controller.state,
            &request.prefixes,
            &request.sources,
            |it| controller.state.intent.bans_of(it).next().is_some(),
        )?;
        let mut unbanned = Changed::default();
        let mut edits = Vec::new();
        let sources = sources(&controller.state, &request.sources);
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
                unbanned
                    .sources
                    .extend(sources.contains(&prefix).then_some(prefix));
            } else {
                unbanned.absent.push(prefix);
            }
        }
        let Controller { feeds, state, .. } = controller;
        let lifts = feeds.cluster.lifts(state, prefixes.iter().copied());
        unbanned.unfolded = state.apply(edits, Cause::User(author))?.unfolded;
        // A prefix that is not banned here may be banned on other nodes.
        let stated = feeds.cluster.lift(lifts, author);
        let not_here = unbanned.absent.len();
        unbanned.absent.retain(|prefix| !stated.contains(prefix));
        unbanned.removed += not_here - unbanned.absent.len();
        // Bans that end together with this one no longer count.
        let named = prefixes.into_iter();
        unbanned.held = named
            .flat_map(|prefix| held(&controller.state, prefix))
            .collect();
        Ok(unbanned)
    }
}

/// Resolves the named prefixes and addresses. An address means itself and its source if they are
/// banned, otherwise only itself.
pub(super) fn named(
    state: &State,
    prefixes: &[Prefix],
    addresses: &[IpAddr],
    is_banned: impl Fn(Prefix) -> bool,
) -> Result<Vec<Prefix>, Refused> {
    let mut named = prefixes.to_vec();
    for (address, source) in addresses.iter().zip(sources(state, addresses)) {
        let own = Prefix::from(*address);
        let mut banned = vec![own, source];
        banned.retain(|prefix| is_banned(*prefix));
        if banned.is_empty() {
            banned.push(own);
        }
        named.extend(banned);
    }
    distinct(&named)
}

/// Ends all bans that match a filter, except those of lists.
pub struct UnbanMatching(pub UnbanMatchingRequest, pub Arc<str>);

impl Command for UnbanMatching {
    type Answer = Result<Changed, Refused>;

    fn run(self, controller: &mut Controller) -> Self::Answer {
        let UnbanMatchingRequest { filter, all } = self.0;
        if filter.has_all() && !all {
            return Err(Refused::because("an empty filter matches every ban")
                .hint("to remove all bans: --all"));
        }
        controller.feeds.policy_bans.force_check();
        propose(&mut controller.feeds.policy_bans, &mut controller.state)?;
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
        let Controller { feeds, state, .. } = controller;
        let mut lifts = feeds.cluster.lifts(state, prefixes);
        let unfolded = state.apply(edits, Cause::User(&self.1))?.unfolded;
        // If a ban of another origin remains, do not lift the ban on the other nodes.
        lifts.retain(|lift| state.intent.bans_of(lift.prefix).next().is_none());
        feeds.cluster.lift(lifts, &self.1);
        let within = filter.within.into_iter();
        Ok(Changed {
            removed,
            unfolded,
            held: within.flat_map(|it| held(&controller.state, it)).collect(),
            ..Changed::default()
        })
    }
}

/// Returns the bans that cover a whole prefix, unless it is allowed.
fn held(state: &State, prefix: Prefix) -> Vec<RemainingBan> {
    let (now, said) = (clock::now(), state.compiled.rules.sum(prefix));
    if !said.is_banned(now) || said.is_allowed(now) {
        return Vec::new();
    }
    // Other bans exempt protected addresses.
    let is_exempt = prefix.is_address() && state.protection.why(prefix.address()).is_some();
    let bans = state.intent.bans_that_hold(prefix, now);
    bans.filter(|(_, origin)| !is_exempt || *origin == Origin::Forced)
        .map(|(banned, origin)| RemainingBan {
            prefix,
            banned,
            origin,
        })
        .collect()
}
