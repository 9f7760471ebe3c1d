//! All statements of all nodes, and the state in force that follows from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smart_default::SmartDefault;

use super::bounds::LONGEST;
use super::digest::{Digest, hash};
use super::parts::part_of;
use super::statement::{Statement, Subject, Verb};
use crate::key::Key;
use crate::name::NodeName;
use crate::time::{Millis, Stamp};

/// The time for which a statement is kept after its end: the largest difference between the clocks
/// of two nodes, as it may still count on the other one.
pub const HELD_AFTER_END: Millis = 120_000;

/// Statements of all nodes.
#[derive(Clone, Debug, SmartDefault)]
pub struct StatementSet<K> {
    held: BTreeMap<Subject<K>, Vec<KnownStatement>>,
    authors: BTreeMap<NodeName, Author<K>>,
}

/// A known statement, without its subject.
#[derive(Clone, Debug)]
struct KnownStatement {
    author: NodeName,
    verb: Verb,
    stamp: Stamp,
    until: Millis,
    note: Arc<str>,
    hash: u64,
    /// The end of an older statement that this one replaced. It is kept until then, because an old
    /// message may contain the replaced one.
    replaced_until: Millis,
    /// Whether it is kept only for that.
    is_over: bool,
    /// Whether its author is known to still state it. An author that lost its memory does not, and
    /// its statements count until their ends.
    is_confirmed: bool,
}

impl KnownStatement {
    /// Returns when it has ended, or is no longer needed.
    fn end(&self) -> Millis {
        if self.is_over {
            self.replaced_until
        } else {
            self.until
        }
    }

    fn statement<K: Key>(&self, subject: &Subject<K>) -> Statement<K> {
        Statement {
            subject: subject.clone(),
            verb: self.verb,
            stamp: self.stamp,
            until: self.until,
            note: self.note.clone(),
        }
    }

    /// Returns whether it ends other statements early.
    fn ends_others(&self) -> bool {
        self.verb == Verb::Lifts || self.replaced_until > self.until
    }
}

/// A statement that ended others, and the end of the one that it replaced.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ended<K> {
    /// The statement.
    #[serde(flatten)]
    pub statement: Statement<K>,
    /// The end of the replaced statement.
    pub replaced_until: Millis,
}

/// The statements of one node.
#[derive(Clone, Debug, SmartDefault)]
struct Author<K> {
    /// The times at which statements end or are no longer needed.
    ends: BTreeSet<(Millis, Subject<K>, Verb)>,
    /// Statements that end others.
    ending: BTreeSet<(Subject<K>, Verb)>,
    confirmed: Digest,
}

/// The state in force for a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// The end.
    pub until: Millis,
    /// The author: of several nodes, the one with the latest end.
    pub by: NodeName,
    /// The note.
    pub note: Arc<str>,
}

impl<K: Key> StatementSet<K> {
    /// Adds a statement of a node. Returns whether anything changed.
    pub fn merge(&mut self, author: &NodeName, statement: &Statement<K>) -> bool {
        let hash = hash(statement);
        let held = self.held.entry(statement.subject.clone()).or_default();
        let of_author = self.authors.entry(author.clone()).or_default();
        let mut new = KnownStatement {
            author: author.clone(),
            verb: statement.verb,
            stamp: statement.stamp,
            until: statement.until,
            note: statement.note.clone(),
            hash,
            replaced_until: 0,
            is_over: false,
            is_confirmed: true,
        };
        let place = (statement.subject.clone(), statement.verb);
        let end = |held: &KnownStatement| (held.end(), place.0.clone(), place.1);
        if let Some(old) = held
            .iter_mut()
            .find(|held| held.author == *author && held.verb == statement.verb)
        {
            if old.hash == hash && !old.is_confirmed && !old.is_over {
                old.is_confirmed = true;
                of_author.confirmed.add(hash);
            }
            if (old.stamp, old.until, &old.note) >= (new.stamp, new.until, &new.note) {
                return false;
            }
            of_author.ends.remove(&end(old));
            if old.is_confirmed {
                of_author.confirmed.remove(old.hash);
            }
            let longest = old.stamp.millis().saturating_add(LONGEST);
            new.replaced_until = old.until.min(longest).max(old.replaced_until);
            of_author.ends.insert(end(&new));
            *old = new.clone();
        } else {
            of_author.ends.insert(end(&new));
            held.push(new.clone());
        }
        if new.ends_others() {
            of_author.ending.insert(place);
        } else {
            of_author.ending.remove(&place);
        }
        of_author.confirmed.add(hash);
        true
    }

    /// Restores a statement that ended others, from before a restart.
    pub fn recall(&mut self, author: &NodeName, ended: &Ended<K>) {
        let Statement { subject, verb, .. } = &ended.statement;
        self.merge(author, &ended.statement);
        let held = self.held.get_mut(subject).into_iter().flatten();
        for held in held.filter(|held| held.author == *author && held.verb == *verb) {
            held.replaced_until = held.replaced_until.max(ended.replaced_until);
            if let Some(author) = self.authors.get_mut(author).filter(|_| held.ends_others()) {
                author.ending.insert((subject.clone(), *verb));
            }
        }
    }

    /// Returns the statements that ended others, with their authors. They must be kept until the
    /// ends of those.
    pub fn ended(&self) -> impl Iterator<Item = (NodeName, Ended<K>)> {
        let places = self.authors.iter().flat_map(|(name, author)| {
            let of_author = author.ending.iter();
            of_author.map(move |(subject, verb)| (name, subject, *verb))
        });
        places.filter_map(|(name, subject, verb)| {
            let held = self.find(name, subject, verb)?;
            let ended = Ended {
                statement: held.statement(subject),
                replaced_until: held.replaced_until,
            };
            Some((name.clone(), ended))
        })
    }

    /// Returns whether a statement would change anything.
    pub fn would_change(&self, author: &NodeName, statement: &Statement<K>) -> bool {
        let old = self.find(author, &statement.subject, statement.verb);
        old.is_none_or(|old| {
            (old.stamp, old.until, &old.note) < (statement.stamp, statement.until, &statement.note)
        })
    }

    /// Returns what is in force about a subject, by the statements of the nodes that `counts`
    /// accepts. No statement lasts longer than `longest` says for its node.
    ///
    /// A lift removes statements with a stamp and an end that are not later than its own. So it
    /// ends after all that it removes, and unknown statements that end later stay.
    pub fn in_force(
        &self,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
        longest: impl Fn(&NodeName) -> Millis,
    ) -> Option<InForce> {
        let in_force = self.said(subject, wall, counts).filter_map(|held| {
            let until = held
                .until
                .min(held.stamp.millis().saturating_add(longest(&held.author)));
            (until > wall).then_some((until, held))
        });
        let (until, held) = in_force.max_by(|(one, held), (other, than)| {
            one.cmp(other).then_with(|| than.author.cmp(&held.author))
        })?;
        Some(InForce {
            until,
            by: held.author.clone(),
            note: held.note.clone(),
        })
    }

    /// Returns the authors of statements that are not lifted, with their ends.
    pub fn authors_in_force(
        &self,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
    ) -> impl Iterator<Item = (&NodeName, Millis)> {
        self.said(subject, wall, counts)
            .map(|held| (&held.author, held.until))
    }

    /// Returns the node that last lifted a statement of a node before its end.
    pub fn lifter(
        &self,
        author: &NodeName,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
    ) -> Option<NodeName> {
        let said = self.find(author, subject, Verb::Says);
        let said = said.filter(|held| held.until > wall)?;
        let lifts = self.held.get(subject)?.iter().filter(|lift| {
            let is_over = said.stamp <= lift.stamp && said.until <= lift.until;
            lift.verb == Verb::Lifts && is_over && counts(&lift.author)
        });
        let last = lifts.max_by_key(|lift| lift.stamp)?;
        Some(last.author.clone())
    }

    /// Returns the lifts by others of a node's statement that would still count, unless the node
    /// lifts it in the same way. The result removes what theirs and the node's own lift do, and
    /// nothing beyond that.
    pub fn lift_by_others(
        &self,
        author: &NodeName,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
    ) -> Option<Statement<K>> {
        let lifter = self.lifter(author, subject, wall, counts)?;
        let lift = self.find(&lifter, subject, Verb::Lifts)?;
        let own = self.find(author, subject, Verb::Lifts);
        let is_known = own.is_some_and(|own| own.stamp >= lift.stamp && own.until >= lift.until);
        (!is_known).then(|| Statement {
            subject: subject.clone(),
            verb: Verb::Lifts,
            stamp: lift.stamp,
            until: own.map_or(lift.until, |own| own.until.max(lift.until)),
            note: lift.note.clone(),
        })
    }

    /// Returns whether there is a statement of a node about a subject.
    pub fn holds(&self, author: &NodeName, subject: &Subject<K>) -> bool {
        let held = self.held.get(subject);
        held.is_some_and(|held| held.iter().any(|held| held.author == *author))
    }

    fn said(
        &self,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
    ) -> impl Iterator<Item = &KnownStatement> {
        let held: Vec<_> = self
            .held
            .get(subject)
            .into_iter()
            .flatten()
            .filter(|held| counts(&held.author))
            .collect();
        let lifts: Vec<_> = held
            .iter()
            .copied()
            .filter(|held| held.verb == Verb::Lifts)
            .collect();
        held.into_iter().filter(move |held| {
            let is_lifted = lifts
                .iter()
                .any(|lift| held.stamp <= lift.stamp && held.until <= lift.until);
            held.verb == Verb::Says && held.until > wall && !is_lifted
        })
    }

    /// Returns the latest end of all statements about a subject, which a lift must cover.
    pub fn latest_end(&self, subject: &Subject<K>) -> Option<Millis> {
        self.held.get(subject)?.iter().map(|held| held.until).max()
    }

    /// Returns the digest of a node's statements that end later than `after`.
    pub fn digest(&self, author: &NodeName, after: Millis) -> Digest {
        let Some(of_author) = self.authors.get(author) else {
            return Digest::default();
        };
        let mut digest = of_author.confirmed;
        for (until, subject, verb) in &of_author.ends {
            if *until > after {
                break;
            }
            if let Some(held) = self
                .find(author, subject, *verb)
                .filter(|held| held.is_confirmed)
            {
                digest.remove(held.hash);
            }
        }
        digest
    }

    /// Returns a node's statements that end later than a time and are known to still be stated,
    /// with their hashes.
    pub fn of_author(
        &self,
        author: &NodeName,
        after: Millis,
    ) -> impl Iterator<Item = (Statement<K>, u64)> {
        let ends = self
            .authors
            .get(author)
            .into_iter()
            .flat_map(|author| &author.ends);
        ends.filter(move |(until, ..)| *until > after)
            .filter_map(|(_, subject, verb)| {
                let held = self
                    .find(author, subject, *verb)
                    .filter(|held| held.is_confirmed)?;
                Some((held.statement(subject), held.hash))
            })
    }

    /// Returns the digests of a node's statements by part, for 2 to the power of `bits` parts.
    pub fn part_digests(&self, author: &NodeName, after: Millis, bits: u8) -> Vec<u64> {
        let mut digests = vec![0u64; 1 << bits];
        for (statement, hash) in self.of_author(author, after) {
            if let Some(digest) = digests.get_mut(usize::from(part_of(&statement.subject, bits))) {
                *digest = digest.wrapping_add(hash);
            }
        }
        digests
    }

    /// Records that a node no longer states something up to a stamp. It still counts, but is left
    /// out of digests.
    pub fn unconfirm(
        &mut self,
        author: &NodeName,
        up_to: Stamp,
        gone: impl Fn(&Subject<K>, Verb) -> bool,
    ) {
        let Some(of_author) = self.authors.get_mut(author) else {
            return;
        };
        for (_, subject, verb) in of_author
            .ends
            .iter()
            .filter(|(_, subject, verb)| gone(subject, *verb))
        {
            let held = self.held.get_mut(subject).into_iter().flatten();
            for held in held.filter(|held| {
                held.author == *author
                    && held.verb == *verb
                    && held.stamp <= up_to
                    && held.is_confirmed
            }) {
                held.is_confirmed = false;
                of_author.confirmed.remove(held.hash);
            }
        }
    }

    /// Counts the statements of a node.
    pub fn count(&self, author: &NodeName) -> usize {
        self.authors
            .get(author)
            .map_or(0, |author| author.ends.len())
    }

    /// Returns the subjects of a node's statements.
    pub fn subjects_of(&self, author: &NodeName) -> impl Iterator<Item = &Subject<K>> {
        self.authors
            .get(author)
            .into_iter()
            .flat_map(|author| &author.ends)
            .map(|(_, subject, _)| subject)
    }

    /// Returns the subjects of all statements.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject<K>> {
        self.held.keys()
    }

    /// Returns the latest stamp of all statements up to a time.
    pub fn latest_stamp(&self, until: Millis) -> Stamp {
        let stamps = self.held.values().flatten().map(|held| held.stamp);
        let stamps = stamps.filter(|stamp| stamp.millis() <= until);
        stamps.max().unwrap_or_default()
    }

    /// Replaces the stamps of a node's statements that are later than a time, in their order, and
    /// returns these statements.
    pub fn restamp(
        &mut self,
        author: &NodeName,
        latest: Millis,
        mut next: impl FnMut() -> Stamp,
    ) -> Vec<Statement<K>> {
        let Some(of_author) = self.authors.get(author) else {
            return Vec::new();
        };
        let late = of_author.ends.iter().filter_map(|(_, subject, verb)| {
            let held = self.find(author, subject, *verb)?;
            let is_late = held.stamp.millis() > latest && !held.is_over;
            is_late.then(|| (held.stamp, subject.clone(), *verb))
        });
        let mut late: Vec<_> = late.collect();
        late.sort();
        let restamped = late.into_iter().filter_map(|(_, subject, verb)| {
            let mut held = self.held.get_mut(&subject)?.iter_mut();
            let held = held.find(|held| held.author == *author && held.verb == verb)?;
            held.stamp = next();
            let statement = held.statement(&subject);
            let before = core::mem::replace(&mut held.hash, hash(&statement));
            if held.is_confirmed {
                let confirmed = &mut self.authors.get_mut(author)?.confirmed;
                confirmed.remove(before);
                confirmed.add(held.hash);
            }
            Some(statement)
        });
        restamped.collect()
    }

    /// Deletes statements that ended long ago.
    pub fn forget_ended(&mut self, wall: Millis) {
        for (name, author) in &mut self.authors {
            while let Some((until, subject, verb)) = author.ends.first().cloned() {
                if until.saturating_add(HELD_AFTER_END) > wall {
                    break;
                }
                author.ends.pop_first();
                let Some(of_subject) = self.held.get_mut(&subject) else {
                    continue;
                };
                let is_it = |held: &KnownStatement| held.author == *name && held.verb == verb;
                if let Some(held) = of_subject.iter_mut().find(|held| is_it(held)) {
                    if core::mem::take(&mut held.is_confirmed) {
                        author.confirmed.remove(held.hash);
                    }
                    if !held.is_over && held.replaced_until > held.until {
                        held.is_over = true;
                        author.ends.insert((held.end(), subject, verb));
                        continue;
                    }
                }
                author.ending.remove(&(subject.clone(), verb));
                of_subject.retain(|held| !is_it(held));
                if of_subject.is_empty() {
                    self.held.remove(&subject);
                }
            }
        }
        self.authors.retain(|_, author| !author.ends.is_empty());
    }

    fn find(&self, author: &NodeName, subject: &Subject<K>, verb: Verb) -> Option<&KnownStatement> {
        self.held
            .get(subject)?
            .iter()
            .find(|held| held.author == *author && held.verb == verb)
    }
}
