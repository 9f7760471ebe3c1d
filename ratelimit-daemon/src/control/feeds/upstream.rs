//! The routes that a BGP speaker announces for bans.
//!
//! It changes nothing here, so it has no edits. Clients of `GET /v1/upstream` follow the routes.

use ratelimit_common::Instant;
use ratelimit_core::{
    api::UpstreamRoutes,
    intent::Intent,
    lists::Action,
    origin::Origin,
    prefix::Prefix,
    upstream::{Candidate, Routes, Upstream},
};
use tokio::sync::watch;

use crate::{
    clock,
    control::{reports::troubles::UPSTREAM, state::State},
    protected::Protected,
};

/// The routes, and those who follow them.
pub struct UpstreamFeed {
    routes: Routes,
    /// What the last choice depended on: the number of edits, that of changes of the protected
    /// addresses, and whether an operator detached the program.
    chosen_at: Option<(u64, u64, bool)>,
    /// `None` before the first choice.
    published: watch::Sender<Option<UpstreamRoutes>>,
}

impl Default for UpstreamFeed {
    fn default() -> Self {
        Self {
            routes: Routes::default(),
            chosen_at: None,
            published: watch::Sender::new(None),
        }
    }
}

impl UpstreamFeed {
    /// Follows the routes.
    pub fn follow(&self) -> watch::Receiver<Option<UpstreamRoutes>> {
        self.published.subscribe()
    }

    /// Returns the routes, if they were chosen.
    pub fn routes(&self) -> Option<UpstreamRoutes> {
        self.published.borrow().clone()
    }

    /// Chooses the routes again, if something changed. There is none while nothing is dropped here.
    pub fn tick(&mut self, state: &mut State, is_detached: bool) {
        let Some(settings) = state.intent.config.upstream.clone() else {
            if self.chosen_at.take().is_some() {
                self.routes = Routes::default();
                self.publish(state, &Upstream::default());
            }
            return;
        };
        let now = clock::now();
        let intent = &state.intent;
        let protected = state.protection.all();
        let drops_nothing = is_detached || intent.pass_all().is_some() || intent.config.observe;
        let may = |prefix| !drops_nothing && !is_exempt(prefix, intent, protected, now);
        let now_at = Some((state.noted.edits, state.protection.changes(), is_detached));
        let is_current = self.chosen_at == now_at
            && self.routes.is_settled(settings.for_min, now)
            && self.routes.prefixes().all(may);
        if is_current {
            return;
        }
        let bans = intent.bans().iter();
        let bans = bans
            .filter(|((prefix, origin), row)| row.until > now && settings.accepts(*prefix, origin));
        // Bans inside a fold need no routes of their own.
        let is_routed = |wide: Prefix| {
            let fold = intent.ban_of(wide, &Origin::Folded);
            fold.is_some_and(|row| row.until > now)
                && settings.accepts(wide, &Origin::Folded)
                && may(wide)
        };
        let mut last = None;
        let bans = bans.filter(|((prefix, _), _)| {
            let wide = intent.config.fold.and_then(|fold| fold.around(*prefix));
            let Some(wide) = wide.filter(|wide| wide != prefix) else {
                return true;
            };
            let known = last.filter(|(known, _)| *known == wide);
            let (_, is_routed) = known.unwrap_or_else(|| (wide, is_routed(wide)));
            last = Some((wide, is_routed));
            !is_routed
        });
        let bans = bans.map(|((prefix, _), row)| Candidate {
            prefix: *prefix,
            since: row.since,
            until: row.until,
        });
        self.routes.update(&settings, bans, may, now);
        self.chosen_at = now_at;
        self.publish(state, &settings);
    }

    fn publish(&self, state: &mut State, settings: &Upstream) {
        let left_out = self.routes.left_out();
        let routes = UpstreamRoutes {
            next_hop: settings.next_hop,
            next_hop_v6: settings.next_hop_v6,
            communities: settings.communities.clone(),
            routes: self.routes.prefixes().collect(),
            left_out,
        };
        let full = (left_out > 0).then(|| {
            format!("more bans than `routes_max` of [upstream]; {left_out} have no route")
        });
        state.report(UPSTREAM, full);
        self.published.send_if_modified(|published| {
            let is_other = published.as_ref() != Some(&routes);
            *published = Some(routes);
            is_other
        });
    }
}

/// Whether a route of `prefix` would drop packets of an allowed or protected address.
fn is_exempt(prefix: Prefix, intent: &Intent, protected: &Protected, now: Instant) -> bool {
    let follows = |allow: Option<&Prefix>| allow.is_some_and(|allow| prefix.covers(*allow));
    let configured = &intent.config.allow;
    let configured = &configured[configured.partition_point(|allow| *allow < prefix)..];
    let mut lists = intent.lists_for(Action::Allow);
    protected.met_by(prefix).is_some()
        || intent.allowed_by(prefix, now).is_some()
        || follows(configured.first())
        || follows(
            intent
                .allows()
                .range(prefix..)
                .next()
                .map(|(allow, _)| allow),
        )
        || lists.any(|(_, list)| {
            let entries = list.entries();
            let first = entries.partition_point(|entry| entry.prefix < prefix);
            follows(entries.get(first).map(|entry| &entry.prefix))
        })
}
