//! Allows and runtime limits of all nodes: what was set with `--cluster`, here or on another one.
//!
//! A row of them has the node that stated it as its author: `cluster:NODE`. Rows of users of this host stay as they are, also where
//! other nodes state something else.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use ratelimit_cluster::{
    Millis, NodeName, Now,
    statements::{Guard, InForce, LIMITS_MAX, Subject},
};
use ratelimit_common::Instant;
use ratelimit_core::{
    api::{NotInForce, Refused},
    intent::{Edit, EntryRow, LimitRow},
    limit::LimitSpec,
    origin::Origin,
    prefix::Prefix,
};
use serde::{Deserialize, Serialize};

use super::{
    Here, Membership, Node,
    bans::{SAME_END_MS, is_same_end, to_instant, to_millis},
    no_cluster,
};
use crate::{
    cluster::ClusterKey,
    control::{cause::Cause, fitting, rows, state::State},
};

/// So many allows of one node are taken.
const ALLOWS_MAX: usize = 1_000;
/// So many prefixes with limits of one node are taken.
const TARGETS_MAX: usize = 100;

/// Limits, as a statement has them.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct SharedLimits {
    limits: Vec<LimitSpec>,
    #[serde(default)]
    observe: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Permits all that peers state.
pub(super) struct Everything;

impl Guard<ClusterKey> for Everything {
    fn permits(&self, _: &Subject<ClusterKey>) -> Result<(), &'static str> {
        Ok(())
    }
}

/// The subject of an allow.
pub(super) fn allow_of(prefix: Prefix) -> Subject<ClusterKey> {
    Subject::Allow(ClusterKey::Prefix(prefix))
}

/// The subject of runtime limits.
pub(super) fn limits_of(target: Option<Prefix>) -> Subject<ClusterKey> {
    Subject::Limits(target.map_or(ClusterKey::Default, ClusterKey::Prefix))
}

/// Whose limits they are.
fn target(key: &ClusterKey) -> Result<Option<Prefix>, &'static str> {
    match key {
        ClusterKey::Prefix(prefix) => Ok(Some(*prefix)),
        ClusterKey::Default => Ok(None),
        ClusterKey::Budget { .. } => Err("it is no prefix"),
    }
}

impl Membership {
    /// The author of what is set here for all nodes.
    ///
    /// # Errors
    ///
    /// When this host is no node.
    pub fn author(&self) -> Result<String, Refused> {
        let node = self.node.as_ref().ok_or_else(no_cluster)?;
        Ok(Origin::cluster(node.name().as_str()).to_string())
    }

    /// Refuses an allow that other nodes would refuse.
    ///
    /// # Errors
    ///
    /// When one of the prefixes is too wide, or they are too many.
    pub fn require_allows(&self, state: &State, prefixes: &[Prefix]) -> Result<(), Refused> {
        if let Some(wide) = prefixes.iter().find(|prefix| is_wide(**prefix)) {
            return Err(
                Refused::because(format!("{wide} is wider than other nodes allow"))
                    .hint("a /24 and, of IPv6, a /48 are the widest; write wider ones into the configuration of each node"),
            );
        }
        let author = self.author()?;
        let new = prefixes.iter().filter(|prefix| {
            let row = state.intent.allows().get(prefix);
            row.is_none_or(|row| *row.author != *author)
        });
        require_room(
            counts(state).allows.of(&author) + new.count(),
            ALLOWS_MAX,
            "allows",
        )
    }

    /// Refuses limits that other nodes would refuse.
    ///
    /// # Errors
    ///
    /// When there are too many, or they are too long.
    pub fn require_limits(
        &self,
        state: &State,
        target: Option<Prefix>,
        limits: &[LimitSpec],
        reason: Option<&str>,
    ) -> Result<(), Refused> {
        let author = self.author()?;
        let target = target.into();
        if text(limits, false, reason).len() > LIMITS_MAX {
            return Err(
                Refused::because("these limits are too long for one message")
                    .hint("write a shorter reason, or fewer limits"),
            );
        }
        let row = state.intent.limits().get(&target);
        let is_new = row.is_none_or(|row| *row.entry.author != *author);
        require_room(
            counts(state).limits.of(&author) + usize::from(is_new),
            TARGETS_MAX,
            "prefixes with limits",
        )
    }

    /// Until when those allows may last that are to be replaced and were not heard: asked before there are others.
    pub fn unheard_allows(&self, state: &State, prefixes: &[Prefix]) -> Vec<Option<Millis>> {
        let prefixes = prefixes.iter();
        prefixes
            .map(|prefix| self.unheard_end(state, &allow_of(*prefix)))
            .collect()
    }

    /// The same of limits.
    pub fn unheard_limits(&self, state: &State, target: Option<Prefix>) -> Option<Millis> {
        self.unheard_end(state, &limits_of(target))
    }

    /// States allows that are in force here, each in place of what was stated before and may last so long where that was not heard.
    pub fn say_allows(
        &mut self,
        prefixes: impl IntoIterator<Item = (Prefix, Option<Millis>)>,
        until: Instant,
        reason: Option<&str>,
    ) {
        let Some(node) = &mut self.node else {
            return;
        };
        let now = super::now();
        for (prefix, unheard) in prefixes {
            // A shorter one holds in place of a longer one, as on one host.
            node.lift_to(now, allow_of(prefix), unheard, "");
            let until = to_millis(until, now);
            node.say(now, allow_of(prefix), until, reason.unwrap_or_default());
        }
        self.is_unwritten = true;
    }

    /// States limits that are in force here, in place of all that were stated before.
    pub fn say_limits(&mut self, state: &State, target: Option<Prefix>, unheard: Option<Millis>) {
        let Some((node, row)) = self
            .node
            .as_mut()
            .zip(state.intent.limits().get(&target.into()))
        else {
            return;
        };
        let now = super::now();
        let text = text_of(row);
        node.lift_to(now, limits_of(target), unheard, "");
        node.say(
            now,
            limits_of(target),
            to_millis(row.entry.until, now),
            &text,
        );
        self.is_unwritten = true;
    }

    /// Lifts an allow on all nodes; says whether any of them stated one.
    pub fn lift_allow(&mut self, state: &State, prefix: Prefix, author: &str) -> bool {
        self.lift_change(state, allow_of(prefix), author)
    }

    /// Lifts runtime limits on all nodes; says whether any of them stated some.
    pub fn lift_limits(&mut self, state: &State, target: Option<Prefix>, author: &str) -> bool {
        self.lift_change(state, limits_of(target), author)
    }

    fn lift_change(&mut self, state: &State, subject: Subject<ClusterKey>, author: &str) -> bool {
        let end = self.unheard_end(state, &subject);
        let Some(node) = &mut self.node else {
            return false;
        };
        let now = super::now();
        let is_stated = node.in_force(now, &subject, &Everything).is_some();
        self.unheeded.remove(&subject);
        self.is_unwritten |= node.lift_to(now, subject, end, author);
        is_stated
    }

    /// Brings allows and limits to what the nodes state, one after the other.
    pub(super) fn put_changes_in_force(
        &mut self,
        state: &mut State,
        now: Now,
        subjects: BTreeSet<Subject<ClusterKey>>,
    ) {
        if subjects.is_empty() {
            return;
        }
        self.take_lifts_over(now, &subjects);
        let mut counts = counts(state);
        for subject in subjects {
            let change = self.change(state, super::now(), &subject, &mut counts);
            if let Some((by, edit)) = change
                && let Err(refused) = state.apply([edit], Cause::Origin)
            {
                self.unheeded.insert(subject, (by, refused.error));
            }
        }
    }

    /// Has this node lift, too, what it stated and others lifted. That is written down before anything ends here: a kill in between leaves
    /// what ends at the next start.
    fn take_lifts_over(&mut self, now: Now, subjects: &BTreeSet<Subject<ClusterKey>>) {
        let Some(node) = &mut self.node else {
            return;
        };
        let mut lifted = 0;
        for subject in subjects {
            lifted += usize::from(node.lift_as_others(now, subject));
        }
        if lifted > 0 {
            self.write_down();
        }
    }

    /// What has to be different about an allow or limits, and which node says so.
    fn change(
        &mut self,
        state: &State,
        now: Now,
        subject: &Subject<ClusterKey>,
        counts: &mut Counts,
    ) -> Option<(NodeName, Edit)> {
        let node = self.node.as_ref()?;
        let stated = node.in_force(now, subject, &Everything);
        let stated = stated.filter(|it| it.until > now.wall + SAME_END_MS);
        self.unheeded.remove(subject);
        let Some(stated) = stated else {
            return removal(node, state, subject);
        };
        let is_own = stated.by == *node.name();
        if is_own && is_row_of(state, subject, &stated.by) {
            // The row was written before the statement: a kill in between leaves an older statement.
            return None;
        }
        if !self.is_caught_up || is_own && !self.is_settled() {
            // It may have been lifted before this node started.
            return None;
        }
        let wanted = if is_own {
            Ok(())
        } else {
            Here(state, &self.budgets).permits(subject)
        };
        let wanted = wanted.map_err(str::to_owned);
        let wanted = wanted.and_then(|()| wanted_edit(state, subject, &stated, now, counts));
        match wanted {
            Ok(edit) => edit.map(|edit| (stated.by, edit)),
            Err(why) => {
                self.unheeded.insert(subject.clone(), (stated.by, why));
                removal(self.node.as_ref()?, state, subject)
            }
        }
    }

    /// What this host has by its own statement before a restart, and neither its memory nor the store has any more, or has otherwise, is
    /// stated again.
    pub(super) fn state_own_changes(&mut self, state: &State, now: Now) {
        let Ok(author) = self.author() else {
            return;
        };
        if !self.is_settled() {
            return;
        }
        let Some(node) = &mut self.node else {
            return;
        };
        for (prefix, row) in state.intent.allows() {
            let subject = allow_of(*prefix);
            if *row.author == *author {
                let reason = row.reason.as_deref().unwrap_or_default();
                self.is_unwritten |= state_again(node, now, subject, row.until, reason);
            }
        }
        for (target, row) in limits_of_sources(state) {
            let subject = limits_of(target);
            if *row.entry.author == *author {
                self.is_unwritten |=
                    state_again(node, now, subject, row.entry.until, &text_of(row));
            }
        }
    }

    /// What other nodes state and is not in force here, and why.
    pub(super) fn not_in_force(&self) -> Vec<NotInForce> {
        let unheeded = self.unheeded.iter();
        unheeded
            .map(|(subject, (node, why))| NotInForce {
                what: name(subject),
                node: node.to_string(),
                why: why.clone(),
            })
            .collect()
    }
}

/// States what this host has, where its own statement says nothing or something else; says whether it did.
fn state_again(
    node: &mut Node<ClusterKey>,
    now: Now,
    subject: Subject<ClusterKey>,
    until: Instant,
    text: &str,
) -> bool {
    let until = to_millis(until, now);
    let is_stated = match node.in_force(now, &subject, &Everything) {
        Some(it) if it.by == *node.name() => {
            *it.note == *subject.note(text) && is_same_end(Some(until), Some(it.until))
        }
        _ => node.holds(node.name(), &subject),
    };
    if !is_stated {
        node.lift(now, subject.clone(), "");
        node.say(now, subject, until, text);
    }
    !is_stated
}

/// The author of the row that this host has of a subject, and what takes it away.
pub(super) fn row_of<'s>(
    state: &'s State,
    subject: &Subject<ClusterKey>,
) -> Option<(&'s str, Edit)> {
    match subject {
        Subject::Allow(ClusterKey::Prefix(prefix)) => {
            let row = state.intent.allows().get(prefix)?;
            Some((&row.author, Edit::Allow(*prefix, None)))
        }
        Subject::Limits(key) => {
            let target = target(key).ok()?;
            let row = state.intent.limits().get(&target.into())?;
            Some((&row.entry.author, Edit::Limits(target.into(), None)))
        }
        Subject::Allow(_) | Subject::Ban(_) | Subject::Node(_) => None,
    }
}

/// Whether this host has a row of a subject by the statement of a node.
fn is_row_of(state: &State, subject: &Subject<ClusterKey>, by: &NodeName) -> bool {
    let its = Origin::cluster(by.as_str()).to_string();
    row_of(state, subject).is_some_and(|(author, _)| author == its)
}

/// The removal of what a node stated here and states no more.
fn removal(
    node: &Node<ClusterKey>,
    state: &State,
    subject: &Subject<ClusterKey>,
) -> Option<(NodeName, Edit)> {
    let (author, edit) = row_of(state, subject)?;
    let Origin::Cluster(by) = Origin::of_author(author) else {
        return None;
    };
    let by = NodeName::new(&by)?;
    // After a restart it is not yet known what other nodes state: until then it stays.
    let is_known = node.agrees_with(&by) || node.holds(&by, subject);
    is_known.then_some((by, edit))
}

/// What brings this host to a statement; an error where it cannot have it.
fn wanted_edit(
    state: &State,
    subject: &Subject<ClusterKey>,
    stated: &InForce,
    now: Now,
    counts: &mut Counts,
) -> Result<Option<Edit>, String> {
    let until = to_instant(stated.until, now);
    let author = Origin::cluster(stated.by.as_str()).to_string();
    let is_same = |it: &EntryRow, row: &EntryRow| {
        let [end, other] = [it, row].map(|row| Some(to_millis(row.until, now)));
        (&it.author, &it.reason) == (&row.author, &row.reason) && is_same_end(end, other)
    };
    match subject {
        Subject::Allow(ClusterKey::Prefix(prefix)) => {
            let reason = Some(Arc::clone(&stated.note)).filter(|note| !note.is_empty());
            let row = rows::entry(until, reason, &*author);
            // This host's own allow is as good.
            let is_as_good = |it: &EntryRow| !is_of_cluster(&it.author) || is_same(it, &row);
            if state.intent.allows().get(prefix).is_some_and(is_as_good) {
                return Ok(None);
            }
            let before = state.intent.allows().get(prefix);
            if before.is_none_or(|before| *before.author != *author) {
                counts.allows.take(&author, ALLOWS_MAX, "allows")?;
            }
            Ok(Some(Edit::Allow(*prefix, Some(row))))
        }
        Subject::Limits(key) => {
            let target = target(key)?.into();
            let SharedLimits {
                limits,
                observe,
                reason,
            } = serde_json::from_str(&stated.note)
                .map_err(|error| format!("this release does not understand it: {error}"))?;
            let entry = rows::entry(until, reason, &*author);
            if let Some(it) = state.intent.limits().get(&target) {
                if !is_of_cluster(&it.entry.author) {
                    return Err(format!(
                        "this node has runtime limits of its own for it, set by {}; `rlctl limit rm` ends them",
                        it.entry.author
                    ));
                }
                if (&it.limits, it.observe) == (&limits, observe) && is_same(&it.entry, &entry) {
                    return Ok(None);
                }
            }
            fitting::check(state, &limits).map_err(|refused| refused.error)?;
            let before = state.intent.limits().get(&target);
            if before.is_none_or(|before| *before.entry.author != *author) {
                counts
                    .limits
                    .take(&author, TARGETS_MAX, "prefixes with limits")?;
            }
            let row = LimitRow {
                limits,
                observe,
                entry,
            };
            Ok(Some(Edit::Limits(target, Some(row))))
        }
        Subject::Allow(_) | Subject::Ban(_) | Subject::Node(_) => Err("it is no prefix".to_owned()),
    }
}

/// How much each node has here.
#[derive(Default)]
struct Counts {
    allows: ByAuthor,
    limits: ByAuthor,
}

fn counts(state: &State) -> Counts {
    let count = |mut counts: ByAuthor, author: &Arc<str>| {
        *counts.0.entry(author.to_string()).or_default() += 1;
        counts
    };
    let allows = state.intent.allows().values().map(|row| &row.author);
    let limits = state.intent.limits().values();
    let limits = limits.map(|row| &row.entry.author);
    Counts {
        allows: allows.fold(ByAuthor::default(), count),
        limits: limits.fold(ByAuthor::default(), count),
    }
}

#[derive(Default)]
struct ByAuthor(BTreeMap<String, usize>);

impl ByAuthor {
    fn of(&self, author: &str) -> usize {
        self.0.get(author).copied().unwrap_or_default()
    }

    fn take(&mut self, author: &str, most: usize, what: &str) -> Result<(), String> {
        let count = self.0.entry(author.to_owned()).or_default();
        if *count >= most {
            return Err(format!("{most} {what} of one node are the most"));
        }
        *count += 1;
        Ok(())
    }
}

fn require_room(count: usize, most: usize, what: &str) -> Result<(), Refused> {
    if count <= most {
        return Ok(());
    }
    Err(
        Refused::because(format!("other nodes take {most} {what} of one node"))
            .hint("end some, or write them into the configuration of each node"),
    )
}

/// Whether an author of allows and limits is a node.
pub fn is_of_cluster(author: &str) -> bool {
    matches!(Origin::of_author(author), Origin::Cluster(_))
}

/// A wider one is not for other nodes to allow.
pub(super) fn is_wide(prefix: Prefix) -> bool {
    let least = if prefix.address().is_ipv4() { 24 } else { 48 };
    prefix.len() < least
}

fn text_of(row: &LimitRow) -> String {
    text(&row.limits, row.observe, row.entry.reason.as_deref())
}

fn text(limits: &[LimitSpec], observe: bool, reason: Option<&str>) -> String {
    let limits = SharedLimits {
        limits: limits.to_vec(),
        observe,
        reason: reason.map(str::to_owned),
    };
    serde_json::to_string(&limits).unwrap_or_default()
}

pub(super) fn name(subject: &Subject<ClusterKey>) -> String {
    match subject {
        Subject::Allow(ClusterKey::Prefix(prefix)) => format!("the allow of {prefix}"),
        Subject::Limits(ClusterKey::Prefix(prefix)) => format!("the limits of {prefix}"),
        Subject::Limits(_) => "the limits of the default policy".to_owned(),
        Subject::Ban(ClusterKey::Prefix(prefix)) => format!("the ban of {prefix}"),
        Subject::Node(name) => format!("the revocation of `{name}`"),
        Subject::Allow(_) | Subject::Ban(_) => "a statement about no prefix".to_owned(),
    }
}

/// The runtime limits that nodes can state: those of sources, of a prefix or of the default policy.
fn limits_of_sources(state: &State) -> impl Iterator<Item = (Option<Prefix>, &LimitRow)> {
    let limits = state.intent.limits().iter();
    let limits = limits.filter(|(target, _)| target.destination().is_none());
    limits.map(|(target, row)| (target.sources(), row))
}

/// All that the rows of this host are about that nodes stated.
pub(super) fn subjects_of_rows(state: &State) -> impl Iterator<Item = Subject<ClusterKey>> {
    let allows = state.intent.allows().iter();
    let allows = allows.filter(|(_, row)| is_of_cluster(&row.author));
    let limits = limits_of_sources(state);
    let limits = limits.filter(|(_, row)| is_of_cluster(&row.entry.author));
    let allows = allows.map(|(prefix, _)| allow_of(*prefix));
    allows.chain(limits.map(|(target, _)| limits_of(target)))
}

/// The ends of all of them, for a host that is no node any more.
pub(super) fn ends(state: &State) -> Vec<Edit> {
    let subjects = subjects_of_rows(state);
    subjects
        .filter_map(|subject| Some(row_of(state, &subject)?.1))
        .collect()
}
