//! Changes in force that are not in the database yet. A full or read-only disk prevents no ban,
//! neither a new one nor one in force.
//!
//! Only the keys of rows are recorded, and the intent at the time of writing is written. So later
//! changes are included, everything fits in one transaction, and nothing is kept twice.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use ratelimit_core::{
    intent::{Edit, Intent, Target},
    origin::Origin,
    prefix::Prefix,
};
use tracing::{info, warn};

use super::store::Store;
use crate::{clock, control::reports::log_throttle::Reminder};

/// Retries take at most this part of the time: on a full disk, a million rows are written for
/// seconds and then rolled back.
const TIME_PART: u32 = 4;

/// The key of a row.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Key {
    Ban(Prefix, Origin),
    Allow(Prefix),
    Limits(Target),
    List(Arc<str>),
    Offence(Prefix),
    Limited(Prefix),
}

impl Key {
    /// Returns `None` if the change is kept in a file instead of the database.
    fn of(edit: &Edit) -> Option<Self> {
        Some(match edit {
            Edit::Ban(prefix, origin, _) => Self::Ban(*prefix, origin.clone()),
            Edit::Allow(prefix, _) => Self::Allow(*prefix),
            Edit::Limits(target, _) => Self::Limits(*target),
            Edit::List(name, ..) => Self::List(Arc::clone(name)),
            Edit::Offence(source, _) => Self::Offence(*source),
            Edit::Limited(prefix, _) => Self::Limited(*prefix),
            Edit::Config(_) | Edit::PassAll(_) => return None,
        })
    }

    /// Returns the row as intended, or its removal.
    fn intended(&self, intent: &Intent) -> Edit {
        match self {
            Self::Ban(prefix, origin) => {
                let row = intent.ban_of(*prefix, origin).cloned();
                Edit::Ban(*prefix, origin.clone(), row)
            }
            Self::Allow(prefix) => Edit::Allow(*prefix, intent.allows().get(prefix).cloned()),
            Self::Limits(target) => Edit::Limits(*target, intent.limits().get(target).cloned()),
            Self::List(name) => {
                let list = intent.lists().get(name).cloned();
                Edit::List(Arc::clone(name), list, [].into())
            }
            Self::Offence(source) => Edit::Offence(*source, intent.offence(*source)),
            Self::Limited(prefix) => Edit::Limited(*prefix, intent.limited().get(prefix).cloned()),
        }
    }
}

fn keys(edits: &[Edit]) -> impl Iterator<Item = Key> {
    edits.iter().filter_map(Key::of)
}

/// Replaces `edit` by the current intent for its keys, including the prefixes that it names.
pub fn intended(edit: &Edit, intent: &Intent) -> Edit {
    match edit {
        Edit::List(name, _, touched) => {
            let list = intent.lists().get(name).cloned();
            Edit::List(Arc::clone(name), list, Arc::clone(touched))
        }
        Edit::Config(_) => Edit::Config(Box::new(intent.config.clone())),
        Edit::PassAll(_) => Edit::PassAll(intent.pass_all()),
        edit @ (Edit::Ban(..)
        | Edit::Allow(..)
        | Edit::Limits(..)
        | Edit::Offence(..)
        | Edit::Limited(..)) => {
            Key::of(edit).map_or_else(|| edit.clone(), |key| key.intended(intent))
        }
    }
}

/// The keys of unwritten rows, and why they were not written.
#[derive(Default)]
pub struct Unwritten {
    keys: BTreeSet<Key>,
    /// Whether changes wait for others, to be written with them.
    is_grouped: bool,
    failed: Option<Failed>,
    reminder: Reminder,
}

/// The last failure.
struct Failed {
    error: String,
    /// The time of the next try.
    again: Instant,
}

impl Unwritten {
    /// Writes the intent for the keys of `edits`. If that fails, the changes stay in force and are
    /// written later.
    pub fn write(&mut self, edits: &[Edit], intent: &Intent, store: &mut Store) {
        if self.is_grouped || self.failed.is_some() {
            self.later(edits);
            return;
        }
        let begun = clock::monotonic();
        let mut rows = keys(edits).map(|key| key.intended(intent)).peekable();
        if rows.peek().is_none() {
            return;
        }
        if let Err(error) = store.write(rows) {
            self.later(edits);
            self.fail(&error, clock::elapsed(begun));
        }
    }

    /// Leaves changes in force for the next write.
    pub fn later(&mut self, edits: &[Edit]) {
        self.keys.extend(keys(edits));
    }

    /// Starts a group, whose changes are written together.
    pub fn begin_group(&mut self) {
        self.is_grouped = true;
    }

    /// Writes the changes of a group in one transaction.
    pub fn end_group(&mut self, intent: &Intent, store: &mut Store) {
        self.is_grouped = false;
        if self.failed.is_none() {
            self.catch_up(intent, store);
        }
    }

    /// Retries to write what is left: each second after a failure, or less often if a try takes
    /// long.
    pub fn catch_up(&mut self, intent: &Intent, store: &mut Store) {
        let is_due = |failed: &Failed| clock::monotonic() >= failed.again;
        if self.keys.is_empty() || !self.failed.as_ref().is_none_or(is_due) {
            return;
        }
        let begun = clock::monotonic();
        match store.write(self.keys.iter().map(|key| key.intended(intent))) {
            Ok(()) => {
                if self.failed.is_some() {
                    let count = self.keys.len();
                    info!(count, "changes are saved in the database");
                }
                *self = Self::default();
            }
            Err(error) => self.fail(&error, clock::elapsed(begun)),
        }
    }

    /// Makes the next try due immediately.
    pub fn try_at_once(&mut self) {
        self.failed = None;
    }

    /// Returns why changes are not in the database, if a write failed.
    pub fn behind(&self) -> Option<String> {
        let failed = self.failed.as_ref()?;
        let count = self.keys.len();
        let changes = if count == 1 { "change" } else { "changes" };
        Some(format!(
            "{count} {changes} in the database: {}",
            failed.error
        ))
    }

    /// Counts the changes that the database refused.
    pub fn count(&self) -> usize {
        self.failed.as_ref().map_or(0, |_| self.keys.len())
    }

    fn fail(&mut self, error: &anyhow::Error, took: Duration) {
        let error = format!("{error:#}");
        if self.reminder.is_due() {
            let count = self.keys.len();
            warn!(
                error,
                count,
                "cannot save changes to the database, and a restart may undo them; retrying every \
                 second"
            );
        }
        let again = clock::monotonic() + took * TIME_PART;
        self.failed = Some(Failed { error, again });
    }
}
