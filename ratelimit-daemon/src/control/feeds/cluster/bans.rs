//! Converts bans of this host into statements, and statements of other nodes into bans with the
//! origin `cluster:NODE`.

use std::collections::{BTreeMap, BTreeSet};

use ratelimit_cluster::{Millis, NodeName, Now, statements::Subject};
use ratelimit_common::Instant;
use ratelimit_core::{
    intent::{Edit, FOREVER},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::{
    Here, Membership, Node,
    changes::{Everything, allow_of, ends, row_of, subjects_of_rows},
};
use crate::{
    cluster::ClusterKey,
    control::{
        reports::{cause::Cause, rows},
        state::{State, unshared::shared_ban},
    },
};

/// Ends that differ by less are equal.
pub(super) const SAME_END_MS: Millis = 2_000;
const NANOS: u64 = 1_000_000;
/// The end "forever" in statements: the year 9999.
const FOREVER_MS: Millis = 253_402_207_200_000;

/// Lifts the bans of a prefix on all nodes.
pub struct Lift {
    pub prefix: Prefix,
    /// The expiry that the lift needs to cover bans that were not heard.
    end: Option<Millis>,
}

impl Membership {
    /// Returns the prefixes whose bans of this host are to be stated: changed ones, or all if the
    /// clock was wrong before. Until the store's time is known, this clock may be wrong, too.
    pub(super) fn unstated_bans(&mut self, state: &mut State, now: Now) -> BTreeSet<Prefix> {
        let node = self.node.as_ref();
        if node.and_then(|it| it.store_time(now.monotonic)).is_none() {
            return BTreeSet::new();
        }
        let unshared = &mut state.noted.unshared;
        if std::mem::replace(&mut self.stated_by, self.wall.get()) != self.wall.get() {
            unshared.begin(&state.intent);
        }
        unshared.take()
    }

    /// States the changed bans of this host.
    pub(super) fn state_own_bans(&mut self, state: &State, now: Now, changed: &BTreeSet<Prefix>) {
        let Some(node) = &mut self.node else {
            return;
        };
        for prefix in changed {
            let subject = ban_of(*prefix);
            let row = shared_ban(&state.intent, *prefix);
            let wanted = row.map(|row| to_millis(row.until, now));
            let wanted = wanted.filter(|until| *until > now.wall);
            let stated = node.own_end(now, &subject);
            if is_same_end(wanted, stated) {
                continue;
            }
            if stated > wanted {
                node.withdraw(now, subject.clone(), "");
            }
            if let (Some(until), Some(row)) = (wanted, row) {
                let why = row.reason.as_deref().unwrap_or_default();
                node.say(now, subject, until, why);
            }
            self.is_unwritten = true;
        }
    }

    /// Returns the lifts for all nodes once the bans of these prefixes have ended here.
    pub fn lifts(&self, state: &State, prefixes: impl IntoIterator<Item = Prefix>) -> Vec<Lift> {
        let lift = |prefix| Lift {
            prefix,
            end: self.unheard_end(state, &ban_of(prefix)),
        };
        prefixes.into_iter().map(lift).collect()
    }

    /// Lifts the statements about prefixes on all nodes, and returns those that were in force on
    /// any node. The lifts survive a crash right after the call.
    pub fn lift(&mut self, lifts: Vec<Lift>, author: &str) -> Vec<Prefix> {
        let (now, mut stated) = (self.now(), Vec::new());
        let Some(node) = &mut self.node else {
            if self.url().is_some() {
                self.early_lifts.push((lifts, author.to_owned()));
            }
            return Vec::new();
        };
        for Lift { prefix, end } in lifts {
            let subject = ban_of(prefix);
            stated.extend(node.in_force(now, &subject, &Everything).map(|_| prefix));
            self.is_unwritten |= node.lift_to(now, subject, end, author);
        }
        if self.is_unwritten {
            self.write_down();
        }
        stated
    }

    /// Returns how long a lift must last for bans that were not heard: forever if the row is from a
    /// node that was not heard since this one started. This host may have stated its own ban under
    /// another name, with an end that differs by moments.
    pub fn unheard_end(&self, state: &State, subject: &Subject<ClusterKey>) -> Option<Millis> {
        let (node, now) = (self.node.as_ref(), self.now());
        let of_row = |origin: &Origin, until| match origin {
            Origin::Cluster(by) => {
                let by = node.zip(NodeName::new(by));
                let is_heard = by.is_some_and(|(node, by)| node.holds(&by, subject));
                (!is_heard).then_some(FOREVER_MS)
            }
            origin if origin.is_shared() => Some(to_millis(until, now) + SAME_END_MS),
            Origin::Config
            | Origin::Manual
            | Origin::Forced
            | Origin::Automatic
            | Origin::Folded
            | Origin::List(_)
            | Origin::Program(_)
            | Origin::Crowdsec => None,
        };
        match subject {
            Subject::Ban(ClusterKey::Prefix(prefix)) => {
                let bans = state.intent.bans_of(*prefix);
                bans.filter_map(|(origin, row)| of_row(origin, row.until))
                    .max()
            }
            Subject::Ban(_) | Subject::Allow(_) | Subject::Limits(_) | Subject::Node(_) => {
                let origin = Origin::of_author(&row_of(state, subject)?.entry.author);
                matches!(origin, Origin::Cluster(_))
                    .then(|| of_row(&origin, FOREVER))
                    .flatten()
            }
        }
    }

    /// Returns the prefixes with a stated ban of any node.
    pub(super) fn stated_bans(&self) -> BTreeSet<Prefix> {
        let subjects = self.node.iter().flat_map(Node::subjects);
        let bans = subjects.filter_map(|subject| match subject {
            Subject::Ban(ClusterKey::Prefix(prefix)) => Some(*prefix),
            Subject::Ban(_) | Subject::Allow(_) | Subject::Limits(_) | Subject::Node(_) => None,
        });
        bans.collect()
    }

    /// Returns all subjects of statements, and those that other nodes have here.
    pub(super) fn all(&self, state: &State) -> BTreeSet<Subject<ClusterKey>> {
        let bans = state.intent.bans().keys();
        let bans = bans.filter(|(_, origin)| matches!(origin, Origin::Cluster(_)));
        let node = self.node.iter();
        let stated = node.flat_map(Node::subjects).cloned();
        let bans = bans.map(|(prefix, _)| ban_of(*prefix));
        let rows = bans.chain(subjects_of_rows(state));
        rows.chain(stated).collect()
    }

    /// Applies the statements of the nodes: allows and limits first, then bans.
    pub(super) fn put_in_force(
        &mut self,
        state: &mut State,
        now: Now,
        subjects: impl IntoIterator<Item = Subject<ClusterKey>>,
    ) {
        if self.node.is_none() {
            return;
        }
        let (mut prefixes, mut changes) = (BTreeSet::new(), BTreeSet::new());
        for subject in subjects {
            match subject {
                Subject::Ban(ClusterKey::Prefix(prefix)) => {
                    prefixes.insert(prefix);
                    // A permanent ban does not allow other nodes to allow the prefix.
                    if state.intent.allows().contains_key(&prefix) {
                        changes.insert(allow_of(prefix));
                    }
                }
                Subject::Allow(ClusterKey::Prefix(prefix)) => {
                    // Bans of other nodes apply once the allow is gone.
                    prefixes.insert(prefix);
                    changes.insert(subject);
                }
                Subject::Limits(_) => {
                    changes.insert(subject);
                }
                Subject::Ban(_) | Subject::Allow(_) | Subject::Node(_) => {}
            }
        }
        self.put_changes_in_force(state, now, changes);
        let (bans, lifted) = self.due_bans(state, self.now(), prefixes);
        self.apply(state, bans, Cause::Origin);
        for (by, edits) in lifted {
            let by = format!("node {by}");
            self.apply(state, edits, Cause::User(&by));
        }
    }

    /// Applies edits of bans. If that fails, the next sweep tries again.
    fn apply(&mut self, state: &mut State, edits: Vec<Edit>, cause: Cause<'_>) {
        if let Err(refused) = state.apply(edits, cause) {
            warn!(error = refused.error, "cannot apply bans of other nodes");
            self.connection.error = Some(refused.error);
        }
    }

    /// Returns the due additions and removals of bans, followed by the lifts of other nodes.
    fn due_bans(
        &self,
        state: &State,
        now: Now,
        prefixes: BTreeSet<Prefix>,
    ) -> (Vec<Edit>, BTreeMap<NodeName, Vec<Edit>>) {
        let mut lifted: BTreeMap<NodeName, Vec<Edit>> = BTreeMap::new();
        let (mut coming, mut going) = (Vec::new(), Vec::new());
        for prefix in prefixes {
            if let Some((by, edits)) = self.lifted_bans(state, now, prefix) {
                lifted.entry(by).or_default().extend(edits);
            }
            let (come, go) = self.other_bans(state, now, prefix);
            coming.extend(come);
            going.extend(go);
        }
        // Additions are sorted, and come before removals.
        coming.extend(going);
        (coming, lifted)
    }

    /// Returns the ends of bans of this host that another node lifted, with that node.
    fn lifted_bans(
        &self,
        state: &State,
        now: Now,
        prefix: Prefix,
    ) -> Option<(NodeName, Vec<Edit>)> {
        let node = self.node.as_ref()?;
        let by = node.lifted_by(now, &ban_of(prefix))?;
        let bans = state.intent.bans_of(prefix);
        let shared = bans.filter(|(origin, _)| origin.is_shared());
        let edits: Vec<Edit> = shared
            .map(|(origin, _)| Edit::Ban(prefix, origin.clone(), None))
            .collect();
        (!edits.is_empty()).then_some((by, edits))
    }

    /// Returns the addition and the removals for the bans of other nodes on a prefix: the longest
    /// is enough.
    fn other_bans(&self, state: &State, now: Now, prefix: Prefix) -> (Option<Edit>, Vec<Edit>) {
        let Some(node) = &self.node else {
            return (None, Vec::new());
        };
        let subject = ban_of(prefix);
        let in_force = node.in_force(now, &subject, &Here(state, &self.budgets));
        // A statement of this node matches a ban of its own, unless its database was lost or
        // another node lifted the ban.
        let own = shared_ban(&state.intent, prefix);
        let own = own.map(|row| to_millis(row.until, now));
        let in_force = in_force.filter(|it| {
            let is_here = own.is_some_and(|own| it.until <= own + SAME_END_MS);
            let counts = it.by != *node.name() || !is_here && self.is_settled();
            counts && it.until > now.wall + 1
        });
        let wanted = in_force.map(|it| {
            let reason = Some(it.note).filter(|note| !note.is_empty());
            let row = rows::entry(to_instant(it.until, now), reason, it.by.as_str());
            (Origin::cluster(it.by.as_str()), it.until, row)
        });
        let bans = state.intent.bans_of(prefix);
        let theirs = bans.filter_map(|(origin, row)| {
            let Origin::Cluster(by) = origin else {
                return None;
            };
            Some((origin, by, row))
        });
        let mut gone = Vec::new();
        let mut is_there = false;
        for (origin, by, row) in theirs {
            let until = Some(to_millis(row.until, now));
            let wished = wanted.as_ref().filter(|(wished, ..)| wished == origin);
            if let Some((_, wished, _)) = wished {
                is_there = is_same_end(until, Some(*wished));
                continue;
            }
            // After a restart the statements of other nodes are not known yet. Their bans stay
            // until then, as do those of this node's statements, which may have been lifted.
            let by = NodeName::new(by);
            let is_known = by.is_none_or(|by| {
                let is_decided = by != *node.name() || self.is_settled();
                is_decided && (node.agrees_with(&by) || node.holds(&by, &subject))
            });
            if is_known {
                gone.push(Edit::Ban(prefix, origin.clone(), None));
            }
        }
        let wanted = wanted.filter(|_| !is_there);
        let come = wanted.map(|(origin, _, row)| Edit::Ban(prefix, origin, Some(row)));
        (come, gone)
    }

    /// Ends all rows of other nodes on a host that has left the cluster.
    pub(super) fn end_bans(&mut self, state: &mut State) {
        let bans = state.intent.bans().keys();
        let theirs = bans.filter(|(_, origin)| matches!(origin, Origin::Cluster(_)));
        let mut gone: Vec<Edit> = theirs
            .map(|(prefix, origin)| Edit::Ban(*prefix, origin.clone(), None))
            .collect();
        gone.extend(ends(state));
        if !gone.is_empty() {
            info!(
                entries = gone.len(),
                "[cluster] was removed: its bans, allows and limits end"
            );
            self.apply(state, gone, Cause::Origin);
        }
    }
}

pub(super) fn ban_of(prefix: Prefix) -> Subject<ClusterKey> {
    Subject::Ban(ClusterKey::Prefix(prefix))
}

pub(super) fn is_same_end(one: Option<Millis>, other: Option<Millis>) -> bool {
    match (one, other) {
        (None, None) => true,
        (Some(one), Some(other)) => one.abs_diff(other) < SAME_END_MS,
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// Converts an end to the wall clock.
pub(super) fn to_millis(until: Instant, now: Now) -> Millis {
    if until == FOREVER {
        return FOREVER_MS;
    }
    let left = (until.as_nanos() / NANOS).saturating_sub(now.monotonic);
    now.wall.saturating_add(left).min(FOREVER_MS)
}

/// Converts an end to the clock of the kernel.
pub(super) fn to_instant(until: Millis, now: Now) -> Instant {
    if until >= FOREVER_MS {
        return FOREVER;
    }
    let left = until.saturating_sub(now.wall);
    Instant::from_nanos(now.monotonic.saturating_add(left).saturating_mul(NANOS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_the_same_however_long_it_takes_to_work_through_many() {
        let now = Now {
            wall: 1_700_000_000_000,
            monotonic: 5_000,
        };
        let until = now.wall + 60_000;
        let instant = to_instant(until, now);
        assert_eq!(instant, Instant::from_nanos(65_000 * NANOS));
        assert_eq!(to_millis(instant, now), until);
        assert_eq!(to_millis(to_instant(0, now), now), now.wall);
        assert_eq!(to_millis(FOREVER, now), FOREVER_MS);
        assert_eq!(to_instant(FOREVER_MS, now), FOREVER);
    }
}
