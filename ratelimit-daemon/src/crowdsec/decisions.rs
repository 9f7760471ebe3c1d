//! The decisions that hold, and the bans that come of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    io,
    sync::Arc,
    time::Duration,
};

use jiff::SignedDuration;
use ratelimit_common::Instant;
use ratelimit_core::prefix::Prefix;

use super::{
    answer::{self, Decision, Ignored, Side},
    cut,
};

/// The longest ban: 100 years.
const LASTS_MAX: SignedDuration = SignedDuration::from_hours(100 * 365 * 24);

/// The characters of a text that are kept.
const TEXT_MAX: usize = 256;

/// The prefix and number of a decision.
type Key = (Prefix, u64);

/// The decisions that hold, each by its prefix and number: 48 bytes of a million.
#[derive(Debug, Default)]
pub struct Decisions {
    held: BTreeMap<Key, ActiveDecision>,
    texts: Texts,
}

/// A decision that is in force.
#[derive(Clone, Copy, Debug)]
struct ActiveDecision {
    until: Instant,
    reason: TextId,
    author: TextId,
}

/// A ban to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The expiry, on the kernel's clock.
    pub until: Instant,
    /// The reason: the scenario.
    pub reason: Arc<str>,
    /// The author of the decision.
    pub author: Arc<str>,
}

/// Changes by an answer.
#[derive(Debug, Default, PartialEq)]
pub struct Update {
    /// Bans to be, and prefixes whose bans are over, in the order of the prefixes.
    pub bans: Vec<(Prefix, Option<Wanted>)>,
    /// Whether these are all bans: others have ended.
    pub whole: bool,
    /// The number of decisions in force.
    pub decisions: usize,
    /// Ignored decisions by cause: their number, and the first value.
    pub ignored: BTreeMap<Ignored, (u64, String)>,
}

impl Update {
    /// Returns the decision about a prefix.
    pub fn get(&self, prefix: Prefix) -> Option<&Option<Wanted>> {
        let index = self.bans.binary_search_by_key(&prefix, |(it, _)| *it);
        Some(&self.bans[index.ok()?].1)
    }
}

/// The content of an answer.
#[derive(Default)]
struct Read {
    new: Vec<(Key, ActiveDecision)>,
    ignored: BTreeMap<Ignored, (u64, String)>,
}

impl Decisions {
    /// Takes in an answer that has all decisions.
    ///
    /// # Errors
    ///
    /// When it is no answer. Nothing is held then.
    pub fn replace(
        &mut self,
        answer: impl io::Read,
        now: Instant,
    ) -> Result<Update, serde_json::Error> {
        *self = Self::default();
        // In an answer with all decisions the other list has all that ever ended.
        let Read { new, ignored } = self.read(answer, now, |_| {})?;
        // A tree that is made of many at once is full.
        self.held = new.into_iter().collect();
        let mut bans = Vec::with_capacity(self.held.len());
        let mut decisions = self.held.iter().peekable();
        while let Some(((prefix, _), _)) = decisions.peek() {
            let prefix = *prefix;
            let same = std::iter::from_fn(|| decisions.next_if(|((it, _), _)| *it == prefix));
            let longest = same.map(|(_, held)| *held).max_by_key(|held| held.until);
            bans.push((prefix, longest.map(|held| self.wanted(held))));
        }
        Ok(Update {
            bans,
            whole: true,
            decisions: self.held.len(),
            ignored,
        })
    }

    /// Applies an answer that contains changes.
    ///
    /// # Errors
    ///
    /// If the answer is invalid. The decisions are unchanged.
    pub fn change(
        &mut self,
        answer: impl io::Read,
        now: Instant,
    ) -> Result<Update, serde_json::Error> {
        let mut deleted = Vec::new();
        let Read { new, ignored } = self.read(answer, now, |key| deleted.push(key))?;
        let mut touched = BTreeSet::new();
        for (key, held) in new {
            touched.insert(key.0);
            self.held.insert(key, held);
        }
        // A decision may end between the moments at which the API gathers the two lists: it is on
        // both then.
        for key in deleted {
            touched.extend(self.held.remove(&key).map(|_| key.0));
        }
        let bans = touched.into_iter();
        Ok(Update {
            bans: bans
                .map(|prefix| (prefix, self.longest(prefix, now)))
                .collect(),
            whole: false,
            decisions: self.held.len(),
            ignored,
        })
    }

    fn read(
        &mut self,
        answer: impl io::Read,
        now: Instant,
        mut delete: impl FnMut(Key),
    ) -> Result<Read, serde_json::Error> {
        let mut read = Read::default();
        answer::read(answer, |side, decision| match side {
            Side::New => match self.hold(decision, now) {
                Ok(held) => read.new.extend(held),
                Err(reason) => {
                    let value = || (0, cut(&decision.value, TEXT_MAX).to_owned());
                    read.ignored.entry(reason).or_insert_with(value).0 += 1;
                }
            },
            Side::Deleted => {
                if let Some(prefix) = decision.prefix() {
                    delete((prefix, decision.id));
                }
            }
        })?;
        Ok(read)
    }

    /// A decision in the form that is kept, with its key; `None` if it has already ended.
    fn hold(
        &mut self,
        decision: &Decision<'_>,
        now: Instant,
    ) -> Result<Option<(Key, ActiveDecision)>, Ignored> {
        let prefix = decision.banned()?;
        let lasts = decision.lasts()?.min(LASTS_MAX);
        let Some(lasts) = Duration::try_from(lasts).ok().filter(|it| !it.is_zero()) else {
            return Ok(None);
        };
        let nanos = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
        let held = ActiveDecision {
            until: Instant::from_nanos(now.as_nanos().saturating_add(nanos)),
            reason: self.texts.add(&decision.scenario),
            author: self.texts.add(&decision.origin),
        };
        Ok(Some(((prefix, decision.id), held)))
    }

    /// Returns the decision about a prefix that lasts longest.
    fn longest(&self, prefix: Prefix, now: Instant) -> Option<Wanted> {
        let all = self.held.range((prefix, 0)..=(prefix, u64::MAX));
        let lasting = all.map(|(_, held)| *held).filter(|it| it.until > now);
        let longest = lasting.max_by_key(|held| held.until)?;
        Some(self.wanted(longest))
    }

    fn wanted(&self, held: ActiveDecision) -> Wanted {
        Wanted {
            until: held.until,
            reason: self.texts.get(held.reason),
            author: self.texts.get(held.author),
        }
    }
}

/// Texts, each once: a hundred thousand decisions have some dozens of reasons.
#[derive(Debug, Default)]
struct Texts {
    texts: Vec<Arc<str>>,
    ids: HashMap<Arc<str>, TextId>,
}

/// A place in the texts.
#[derive(Clone, Copy, Debug)]
struct TextId(u32);

impl Texts {
    fn add(&mut self, text: &str) -> TextId {
        let text = cut(text, TEXT_MAX);
        if let Some(known) = self.ids.get(text) {
            return *known;
        }
        let text: Arc<str> = text.into();
        let id = TextId(u32::try_from(self.texts.len()).unwrap_or(u32::MAX));
        self.texts.push(Arc::clone(&text));
        self.ids.insert(text, id);
        id
    }

    fn get(&self, id: TextId) -> Arc<str> {
        let index = usize::try_from(id.0).unwrap_or(usize::MAX);
        self.texts.get(index).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
