//! The decisions that hold, and the bans that come of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
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

/// The decisions that hold, each by its prefix and number.
#[derive(Debug, Default)]
pub struct Decisions {
    held: BTreeMap<(Prefix, u64), Wanted>,
    texts: HashSet<Arc<str>>,
}

/// A ban to be.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Until when, on the kernel's clock.
    pub until: Instant,
    /// Why: the scenario.
    pub reason: Arc<str>,
    /// Who decided.
    pub author: Arc<str>,
}

/// What an answer changes.
#[derive(Debug, Default, PartialEq)]
pub struct Update {
    /// Bans to be, and prefixes whose bans are over.
    pub bans: BTreeMap<Prefix, Option<Wanted>>,
    /// Whether these are all bans: any other is over.
    pub whole: bool,
    /// How many decisions hold.
    pub decisions: usize,
    /// Decisions that ban nobody: how many, and the first value.
    pub ignored: BTreeMap<Ignored, (u64, String)>,
}

impl Decisions {
    /// Takes in an answer that has all decisions.
    ///
    /// # Errors
    ///
    /// When it is no answer. What is held then is a part of it.
    pub fn replace(&mut self, answer: &[u8], now: Instant) -> Result<Update, serde_json::Error> {
        *self = Self::default();
        let mut update = self.take(answer, true, now)?;
        update.whole = true;
        Ok(update)
    }

    /// Takes in an answer that has what changed.
    ///
    /// # Errors
    ///
    /// As of [`replace`](Self::replace).
    pub fn change(&mut self, answer: &[u8], now: Instant) -> Result<Update, serde_json::Error> {
        self.take(answer, false, now)
    }

    fn take(
        &mut self,
        answer: &[u8],
        whole: bool,
        now: Instant,
    ) -> Result<Update, serde_json::Error> {
        let mut update = Update::default();
        let mut touched = BTreeSet::new();
        // A decision may end between the moments at which the API gathers the two lists: it is on both then.
        let mut gone = Vec::new();
        answer::read(answer, |side, decision| match side {
            Side::New => match self.hold(decision, now) {
                Ok(prefix) => touched.extend(prefix),
                Err(reason) => {
                    let value = || (0, cut(&decision.value, TEXT_MAX).to_owned());
                    update.ignored.entry(reason).or_insert_with(value).0 += 1;
                }
            },
            // In an answer with all decisions those are all that ever ended.
            Side::Deleted if whole => {}
            Side::Deleted => gone.extend(decision.prefix().map(|prefix| (prefix, decision.id))),
        })?;
        for key in gone {
            touched.extend(self.held.remove(&key).map(|_| key.0));
        }
        let bans = touched.into_iter();
        update.bans = bans
            .map(|prefix| (prefix, self.longest(prefix, now)))
            .collect();
        update.decisions = self.held.len();
        Ok(update)
    }

    /// Holds a decision, and answers whom it bans; nobody when it has ended on its way.
    fn hold(&mut self, decision: &Decision<'_>, now: Instant) -> Result<Option<Prefix>, Ignored> {
        let prefix = decision.banned()?;
        let lasts = decision.lasts()?.min(LASTS_MAX);
        let Some(lasts) = Duration::try_from(lasts).ok().filter(|it| !it.is_zero()) else {
            return Ok(None);
        };
        let nanos = u64::try_from(lasts.as_nanos()).unwrap_or(u64::MAX);
        let wanted = Wanted {
            until: Instant::from_nanos(now.as_nanos().saturating_add(nanos)),
            reason: self.text(&decision.scenario),
            author: self.text(&decision.origin),
        };
        self.held.insert((prefix, decision.id), wanted);
        Ok(Some(prefix))
    }

    /// Of the decisions about a prefix, the one that lasts longest.
    fn longest(&self, prefix: Prefix, now: Instant) -> Option<Wanted> {
        let all = self.held.range((prefix, 0)..=(prefix, u64::MAX));
        let lasting = all.map(|(_, wanted)| wanted).filter(|it| it.until > now);
        lasting.max_by_key(|wanted| wanted.until).cloned()
    }

    /// The text, in the memory of the one that is there already: a hundred thousand decisions have some dozens of reasons.
    fn text(&mut self, text: &str) -> Arc<str> {
        let text = cut(text, TEXT_MAX);
        if let Some(known) = self.texts.get(text) {
            return Arc::clone(known);
        }
        let text: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&text));
        text
    }
}

#[cfg(test)]
mod tests;
