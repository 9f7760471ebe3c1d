//! Cluster-wide allows and runtime limits: those set with `--cluster` here or on another node.
//!
//! The author of such a row is the node that stated it: `cluster:NODE`. Rows of this host's users
//! stay as they are, even if other nodes state something else.

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
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
    control::{
        reports::{cause::Cause, rows},
        state::{State, fitting},
    },
};

/// The most allows accepted from one node.
const ALLOWS_MAX: usize = 1_000;
/// The most prefixes with limits accepted from one node.
const TARGETS_MAX: usize = 100;

/// Limits in the format of a statement.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct SharedLimits {
    limits: Vec<LimitSpec>,
    #[serde(default)]
    observe: bool,
    /// Whether the other limits of the policy stay. Older releases do not send it, and replace all
    /// limits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    beside: bool,
    #[serde(default)]
    reason: Option<String>,
}

/// Permits all statements of peers.
pub(super) struct Everything;

impl Guard<ClusterKey> for Everything {
    fn permits(&self, _: &Subject<ClusterKey>) -> Result<(), &'static str> {
        Ok(())
    }
}

pub fn allow_of(prefix: Prefix) -> Subject<ClusterKey> {
    Subject::Allow(ClusterKey::Prefix(prefix))
}

pub fn limits_of(target: Option<Prefix>) -> Subject<ClusterKey> {
    Subject::Limits(target.map_or(ClusterKey::Default, ClusterKey::Prefix))
}

/// Returns the target of the limits.
fn target(key: &ClusterKey) -> Result<Option<Prefix>, &'static str> {
    match key {
        ClusterKey::Prefix(prefix) => Ok(Some(*prefix)),
        ClusterKey::Default => Ok(None),
        ClusterKey::Budget { .. } => Err("not a prefix"),
    }
}

impl Membership {
    /// Returns the author of rows that are set here for all nodes.
    pub fn author(&self) -> Result<String, Refused> {
        let node = self.node.as_ref().ok_or_else(no_cluster)?;
        Ok(author_of(node.name()))
    }

    /// Refuses an allow that other nodes would refuse.
    pub fn require_allows(&self, state: &State, prefixes: &[Prefix]) -> Result<(), Refused> {
        if let Some(wide) = prefixes.iter().find(|prefix| is_wide(**prefix)) {
            return Err(
                Refused::because(format!("{wide} is wider than other nodes accept")).hint(
                    "the widest prefixes are /24 and, for IPv6, /48; put wider ones in the \
                     configuration of each node",
                ),
            );
        }
        let subjects: Vec<_> = prefixes.iter().copied().map(allow_of).collect();
        self.require_room(state, &subjects)
    }

    /// Refuses limits that other nodes would refuse.
    pub fn require_limits(
        &self,
        state: &State,
        target: Option<Prefix>,
        limits: &[LimitSpec],
        reason: Option<&str>,
    ) -> Result<(), Refused> {
        if text(limits, false, true, reason).len() > LIMITS_MAX {
            return Err(
                Refused::because("these limits are too long for one message")
                    .hint("use a shorter reason, or fewer limits"),
            );
        }
        self.require_room(state, &[limits_of(target)])
    }

    /// Refuses more rows of a kind than other nodes accept from this one.
    fn require_room(&self, state: &State, subjects: &[Subject<ClusterKey>]) -> Result<(), Refused> {
        let author = self.author()?;
        let Some(first) = subjects.first() else {
            return Ok(());
        };
        let (most, what) = most(first);
        let new = subjects
            .iter()
            .filter(|it| !is_row_of(state, it, &author))
            .count();
        if count(state, first, &author) + new <= most {
            return Ok(());
        }
        Err(
            Refused::because(format!("other nodes accept {most} {what} from one node"))
                .hint("remove some, or put them in the configuration of each node"),
        )
    }

    /// States an allow or limits that are in force here. They replace all earlier statements,
    /// including those that were not heard, which may last until `unheard`.
    pub fn say(&mut self, state: &State, subject: &Subject<ClusterKey>, unheard: Option<Millis>) {
        let (now, row) = (self.now(), row_of(state, subject));
        let Some((node, row)) = self.node.as_mut().zip(row) else {
            return;
        };
        let until = row.entry.until;
        // As on one host, a shorter one replaces a longer one.
        node.lift_to(now, subject.clone(), unheard, "");
        node.say(now, subject.clone(), to_millis(until, now), &row.note());
        self.is_unwritten = true;
    }

    /// Lifts an allow or runtime limits on all nodes. Returns whether any node had stated some.
    pub fn lift_change(
        &mut self,
        state: &State,
        subject: Subject<ClusterKey>,
        author: &str,
    ) -> bool {
        let (now, end) = (self.now(), self.unheard_end(state, &subject));
        let Some(node) = &mut self.node else {
            return false;
        };
        let is_stated = node.in_force(now, &subject, &Everything).is_some();
        self.unheeded.remove(&subject);
        self.is_unwritten |= node.lift_to(now, subject, end, author);
        is_stated
    }

    /// Applies the statements of allows and limits, one after the other.
    pub(super) fn put_changes_in_force(
        &mut self,
        state: &mut State,
        now: Now,
        subjects: BTreeSet<Subject<ClusterKey>>,
    ) {
        if subjects.is_empty() {
            return;
        }
        self.adopt_lifts(now, &subjects);
        let mut counts = Counts::default();
        for subject in subjects {
            let change = self.change(state, self.now(), &subject, &mut counts);
            let Some((by, edit)) = change else {
                continue;
            };
            let before = author_of_row(state, &subject);
            match state.apply([edit], Cause::Origin) {
                Ok(_) => counts.note(&subject, before, author_of_row(state, &subject)),
                Err(refused) => {
                    self.unheeded.insert(subject, (by, refused.error));
                }
            }
        }
    }

    /// Lifts statements of this node that other nodes lifted. That is saved before anything ends
    /// here, so that after a crash the rest ends at the next start.
    fn adopt_lifts(&mut self, now: Now, subjects: &BTreeSet<Subject<ClusterKey>>) {
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

    /// Returns the necessary edit of an allow or limits, and the node that states it.
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
        if is_own && is_row_of(state, subject, &author_of(&stated.by)) {
            // After a crash between the row and the statement, the statement is the older one.
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

    /// States again what this host has by its own statement from before a restart, if its memory
    /// and the store have lost or changed it.
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
        for subject in subjects_of_rows(state) {
            let row = row_of(state, &subject);
            if let Some(row) = row.filter(|row| *row.entry.author == *author) {
                let until = row.entry.until;
                self.is_unwritten |= state_again(node, now, subject, until, &row.note());
            }
        }
    }

    /// Returns the statements of other nodes that are not in force here, and why.
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

/// States a row of this host, unless its own statement says the same. Returns whether it did.
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

/// An allow or runtime limits of this host.
pub(super) struct Row<'s> {
    pub entry: &'s EntryRow,
    /// The whole row, if it is one of limits.
    limits: Option<&'s LimitRow>,
    /// The edit that removes it.
    end: Edit,
}

impl Row<'_> {
    /// Returns the content of its statement, except for the end.
    fn note(&self) -> String {
        let reason = self.entry.reason.as_deref();
        match self.limits {
            Some(row) => text(&row.limits, row.observe, !row.only, reason),
            None => reason.unwrap_or_default().to_owned(),
        }
    }
}

/// Returns this host's row of a subject.
pub(super) fn row_of<'s>(state: &'s State, subject: &Subject<ClusterKey>) -> Option<Row<'s>> {
    match subject {
        Subject::Allow(ClusterKey::Prefix(prefix)) => Some(Row {
            entry: state.intent.allows().get(prefix)?,
            limits: None,
            end: Edit::Allow(*prefix, None),
        }),
        Subject::Limits(key) => {
            let target = target(key).ok()?.into();
            let row = state.intent.limits().get(&target)?;
            Some(Row {
                entry: &row.entry,
                limits: Some(row),
                end: Edit::Limits(target, None),
            })
        }
        Subject::Allow(_) | Subject::Ban(_) | Subject::Node(_) => None,
    }
}

/// Returns whether this host's row of a subject belongs to an author.
fn is_row_of(state: &State, subject: &Subject<ClusterKey>, author: &str) -> bool {
    row_of(state, subject).is_some_and(|row| *row.entry.author == *author)
}

/// Returns the author of a node's statements.
fn author_of(node: &NodeName) -> String {
    Origin::cluster(node.as_str()).to_string()
}

/// Returns the edit that removes a row whose node no longer states it.
fn removal(
    node: &Node<ClusterKey>,
    state: &State,
    subject: &Subject<ClusterKey>,
) -> Option<(NodeName, Edit)> {
    let Row { entry, end, .. } = row_of(state, subject)?;
    let Origin::Cluster(by) = Origin::of_author(&entry.author) else {
        return None;
    };
    let by = NodeName::new(&by)?;
    // After a restart the statements of other nodes are not known yet. The row stays until then.
    let is_known = node.agrees_with(&by) || node.holds(&by, subject);
    is_known.then_some((by, end))
}

/// Returns the edit that applies a statement, or an error if this host cannot have it.
fn wanted_edit(
    state: &State,
    subject: &Subject<ClusterKey>,
    stated: &InForce,
    now: Now,
    counts: &mut Counts,
) -> Result<Option<Edit>, String> {
    let until = to_instant(stated.until, now);
    let author = author_of(&stated.by);
    let before = row_of(state, subject).map(|row| row.entry);
    let is_same = |row: &EntryRow| {
        before.is_some_and(|before| {
            let [end, other] = [before, row].map(|it| Some(to_millis(it.until, now)));
            (&before.author, &before.reason) == (&row.author, &row.reason)
                && is_same_end(end, other)
        })
    };
    let of_user = before.filter(|before| !is_of_cluster(&before.author));
    let edit = match subject {
        Subject::Allow(ClusterKey::Prefix(prefix)) => {
            let reason = Some(Arc::clone(&stated.note)).filter(|note| !note.is_empty());
            let row = rows::entry(until, reason, &*author);
            // An allow of this host's users has the same effect.
            if of_user.is_some() || is_same(&row) {
                return Ok(None);
            }
            Edit::Allow(*prefix, Some(row))
        }
        Subject::Limits(key) => {
            let target = target(key)?.into();
            let SharedLimits {
                limits,
                observe,
                beside,
                reason,
            } = serde_json::from_str(&stated.note)
                .map_err(|error| format!("this release does not understand it: {error}"))?;
            if let Some(row) = of_user {
                return Err(format!(
                    "this node has its own runtime limits, set by {}; remove them with `rlctl \
                     limit rm`",
                    row.author
                ));
            }
            let entry = rows::entry(until, reason, &*author);
            let its = state.intent.limits().get(&target);
            let row = LimitRow {
                limits,
                observe,
                only: !beside,
                entry,
            };
            let says_so = its.is_some_and(|it| {
                (&it.limits, it.observe, it.only) == (&row.limits, observe, row.only)
            });
            if says_so && is_same(&row.entry) {
                return Ok(None);
            }
            fitting::check(state, target, &row).map_err(|refused| refused.error)?;
            Edit::Limits(target, Some(row))
        }
        Subject::Allow(_) | Subject::Ban(_) | Subject::Node(_) => {
            return Err("not a prefix".to_owned());
        }
    };
    let (most, what) = most(subject);
    if !is_row_of(state, subject, &author) && counts.get(state, subject, author) >= most {
        return Err(format!("more than {most} {what} from one node"));
    }
    Ok(Some(edit))
}

/// Returns the most rows of this kind accepted from one node, and the name of the kind.
const fn most(subject: &Subject<ClusterKey>) -> (usize, &'static str) {
    match subject {
        Subject::Allow(_) => (ALLOWS_MAX, "allows"),
        Subject::Limits(_) | Subject::Ban(_) | Subject::Node(_) => {
            (TARGETS_MAX, "prefixes with limits")
        }
    }
}

/// Counts the allows, or the prefixes with limits, of an author.
fn count(state: &State, subject: &Subject<ClusterKey>, author: &str) -> usize {
    let is_its = |row: &&EntryRow| *row.author == *author;
    if let Subject::Allow(_) = subject {
        state.intent.allows().values().filter(is_its).count()
    } else {
        let limits = state.intent.limits().values().map(|row| &row.entry);
        limits.filter(is_its).count()
    }
}

/// Counts for many additions at once: each author is counted once, then updated.
#[derive(Default)]
struct Counts(HashMap<(&'static str, String), usize>);

impl Counts {
    fn get(&mut self, state: &State, subject: &Subject<ClusterKey>, author: String) -> usize {
        let (_, what) = most(subject);
        match self.0.entry((what, author)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => {
                let count = count(state, subject, &unknown.key().1);
                *unknown.insert(count)
            }
        }
    }

    /// Records the previous and the new owner of a subject's row.
    fn note(
        &mut self,
        subject: &Subject<ClusterKey>,
        before: Option<String>,
        after: Option<String>,
    ) {
        let (_, what) = most(subject);
        if let Some(count) = before.and_then(|author| self.0.get_mut(&(what, author))) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = after.and_then(|author| self.0.get_mut(&(what, author))) {
            *count += 1;
        }
    }
}

/// Returns the author of this host's row of a subject.
fn author_of_row(state: &State, subject: &Subject<ClusterKey>) -> Option<String> {
    row_of(state, subject).map(|row| row.entry.author.to_string())
}

/// Returns whether the author of an allow or limits is a node.
pub fn is_of_cluster(author: &str) -> bool {
    matches!(Origin::of_author(author), Origin::Cluster(_))
}

/// Returns whether a prefix is too wide for other nodes to allow.
pub(super) fn is_wide(prefix: Prefix) -> bool {
    let least = if prefix.address().is_ipv4() { 24 } else { 48 };
    prefix.len() < least
}

fn text(limits: &[LimitSpec], observe: bool, beside: bool, reason: Option<&str>) -> String {
    let limits = SharedLimits {
        limits: limits.to_vec(),
        observe,
        beside,
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
        Subject::Allow(_) | Subject::Ban(_) => "an entry without a prefix".to_owned(),
    }
}

/// Returns the subjects of rows that nodes stated: allows, and limits of sources.
pub(super) fn subjects_of_rows(state: &State) -> impl Iterator<Item = Subject<ClusterKey>> {
    let allows = state.intent.allows().iter();
    let allows = allows.filter(|(_, row)| is_of_cluster(&row.author));
    let limits = state.intent.limits().iter();
    let limits = limits.filter(|(_, row)| is_of_cluster(&row.entry.author));
    let limits = limits.filter(|(target, _)| target.destination().is_none());
    let allows = allows.map(|(prefix, _)| allow_of(*prefix));
    allows.chain(limits.map(|(target, _)| limits_of(target.sources())))
}

/// Returns the ends of all these rows, for a host that has left the cluster.
pub(super) fn ends(state: &State) -> Vec<Edit> {
    let subjects = subjects_of_rows(state);
    subjects
        .filter_map(|subject| Some(row_of(state, &subject)?.end))
        .collect()
}
