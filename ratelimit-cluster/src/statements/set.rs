//! All statements of all nodes, and what is in force because of them.

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

/// A statement is held so long after its end: the clocks of two nodes may differ by as much, and what ended on one counts on the other.
pub const HELD_AFTER_END: Millis = 120_000;

/// Statements of all nodes.
#[derive(Clone, Debug, SmartDefault)]
pub struct StatementSet<K> {
    held: BTreeMap<Subject<K>, Vec<Held>>,
    authors: BTreeMap<NodeName, Author<K>>,
}

/// A statement that is held, beside its subject.
#[derive(Clone, Debug)]
struct Held {
    author: NodeName,
    verb: Verb,
    stamp: Stamp,
    until: Millis,
    note: Arc<str>,
    hash: u64,
    /// Until when an older one would count that it took the place of: an old message may bring that back, so it is held so long.
    replaced_until: Millis,
    /// Whether it is held only for that.
    is_over: bool,
    /// Whether its author is known to state it still. One that lost its memory does not, and what it said counts on to its end.
    is_confirmed: bool,
}

impl Held {
    /// When it has ended, or is needed no longer.
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

    /// Whether it ends something that would count else.
    fn ends_others(&self) -> bool {
        self.verb == Verb::Lifts || self.replaced_until > self.until
    }
}

/// A statement that ended others, and until when the one that it took the place of would count.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Ended<K> {
    /// The statement.
    #[serde(flatten)]
    pub statement: Statement<K>,
    /// Until when.
    pub replaced_until: Millis,
}

/// What is held of one node.
#[derive(Clone, Debug, SmartDefault)]
struct Author<K> {
    /// When each ends, or is needed no longer.
    ends: BTreeSet<(Millis, Subject<K>, Verb)>,
    /// Those that end others.
    ending: BTreeSet<(Subject<K>, Verb)>,
    confirmed: Digest,
}

/// What is in force about a subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InForce {
    /// Until when.
    pub until: Millis,
    /// Who said so: of several nodes the one with the latest end.
    pub by: NodeName,
    /// Why.
    pub note: Arc<str>,
}

impl<K: Key> StatementSet<K> {
    /// Takes a statement of a node in; says whether anything changed.
    pub fn merge(&mut self, author: &NodeName, statement: &Statement<K>) -> bool {
        let hash = hash(statement);
        let held = self.held.entry(statement.subject.clone()).or_default();
        let of_author = self.authors.entry(author.clone()).or_default();
        let mut new = Held {
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
        let end = |held: &Held| (held.end(), place.0.clone(), place.1);
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

    /// Takes in a statement of before a restart that ended others.
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

    /// The statements that ended others, with their authors: what nobody may forget before the ends of those.
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

    /// Whether a statement would change anything.
    pub fn is_news(&self, author: &NodeName, statement: &Statement<K>) -> bool {
        let old = self.find(author, &statement.subject, statement.verb);
        old.is_none_or(|old| {
            (old.stamp, old.until, &old.note) < (statement.stamp, statement.until, &statement.note)
        })
    }

    /// What is in force about a subject, by the statements of the nodes that `counts` tells; none of them for longer than `longest`
    /// tells for its node.
    ///
    /// A lift takes away what has no later stamp and no later end. So it ends after all that it takes away, and what it never
    /// saw and ends later stays.
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

    /// Who says so and is not lifted, each until when.
    pub fn sayers(
        &self,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
    ) -> impl Iterator<Item = (&NodeName, Millis)> {
        self.said(subject, wall, counts)
            .map(|held| (&held.author, held.until))
    }

    /// Who lifted what a node said and would hold still: the one who did so last.
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

    /// The lift by others of what a node said and would hold still, where the node lifts it no such way itself. It takes away what theirs
    /// and the node's own lift do, and no more.
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

    /// Whether anything is held that a node stated about a subject.
    pub fn holds(&self, author: &NodeName, subject: &Subject<K>) -> bool {
        let held = self.held.get(subject);
        held.is_some_and(|held| held.iter().any(|held| held.author == *author))
    }

    fn said(
        &self,
        subject: &Subject<K>,
        wall: Millis,
        counts: impl Fn(&NodeName) -> bool,
    ) -> impl Iterator<Item = &Held> {
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

    /// The latest end of anything that is held about a subject: how long a lift of it has to last.
    pub fn latest_end(&self, subject: &Subject<K>) -> Option<Millis> {
        self.held.get(subject)?.iter().map(|held| held.until).max()
    }

    /// What a node's statements come to that end later than a time.
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

    /// A node's statements that end later than a time, and are known to be stated still, with their hashes.
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

    /// What a node's statements come to part by part, of 2 to the power of `bits`.
    pub fn part_digests(&self, author: &NodeName, after: Millis, bits: u8) -> Vec<u64> {
        let mut digests = vec![0u64; 1 << bits];
        for (statement, hash) in self.of_author(author, after) {
            if let Some(digest) = digests.get_mut(usize::from(part_of(&statement.subject, bits))) {
                *digest = digest.wrapping_add(hash);
            }
        }
        digests
    }

    /// Takes in that a node does not state something any more that it stated up to a stamp: it counts on, and is left out of digests.
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

    /// How many statements of a node are held.
    pub fn count(&self, author: &NodeName) -> usize {
        self.authors
            .get(author)
            .map_or(0, |author| author.ends.len())
    }

    /// What a node stated about.
    pub fn subjects_of(&self, author: &NodeName) -> impl Iterator<Item = &Subject<K>> {
        self.authors
            .get(author)
            .into_iter()
            .flat_map(|author| &author.ends)
            .map(|(_, subject, _)| subject)
    }

    /// All that anybody stated about.
    pub fn subjects(&self) -> impl Iterator<Item = &Subject<K>> {
        self.held.keys()
    }

    /// Forgets what ended long ago.
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
                let is_it = |held: &Held| held.author == *name && held.verb == verb;
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

    fn find(&self, author: &NodeName, subject: &Subject<K>, verb: Verb) -> Option<&Held> {
        self.held
            .get(subject)?
            .iter()
            .find(|held| held.author == *author && held.verb == verb)
    }
}
