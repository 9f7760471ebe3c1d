//! The files that lists are read from: when, and how it went.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_core::{config::ListConfig, intent::Intent, lists::Action, prefix::Prefix};

use super::file::{ListFile, SILENCE};
use crate::clock;

/// How it went with the files so far.
#[derive(Debug, Default)]
pub struct ListFiles {
    /// Whether the files were read since the start.
    pub are_read: bool,
    states: BTreeMap<Arc<str>, FileState>,
}

/// How it went with a file.
#[derive(Clone, Debug, Default)]
pub struct FileState {
    tried: Option<Instant>,
    /// When it was last taken.
    pub read: Option<Timestamp>,
    /// When that file was last downloaded.
    pub fetched: Option<Timestamp>,
    /// How often it was not.
    pub errors: u64,
    /// Why it was not, the last time.
    pub error: Option<String>,
    /// When the log told so last.
    reported: Option<Instant>,
    /// As that of the file.
    reader: Arc<()>,
    /// Whether its file system did not answer.
    is_silent: bool,
    /// Whether other networks are connected than when it was read.
    is_outdated: bool,
}

/// How often the log tells of a file that is not taken, time and again for the same reason.
const TOLD_EVERY: Duration = Duration::from_hours(1);
/// When a file is read again whose file system did not answer.
const SILENT: Duration = Duration::from_secs(10);

impl ListFiles {
    /// The lists that are due, of those that are read from time to time, and of those whose file system did not answer. None of them is
    /// being read.
    pub fn due_files(&mut self, lists: &BTreeMap<String, ListConfig>) -> Vec<ListFile> {
        let mut due = Vec::new();
        for (name, config) in lists {
            let state = self.states.entry(name.as_str().into()).or_default();
            if state.is_due(config.every) {
                state.tried = Some(clock::monotonic());
                state.is_outdated = false;
                due.push(ListFile {
                    reader: Arc::clone(&state.reader),
                    ..ListFile::new(name, config)
                });
            }
        }
        due
    }

    /// Has the files read again whose lists are others where `networks` are connected or not.
    pub fn networks_changed(&mut self, intent: &Intent, networks: &BTreeSet<Prefix>) {
        for (name, list) in intent
            .lists()
            .iter()
            .filter(|(_, list)| list.file.is_some())
        {
            let covers = |network: &Prefix| {
                let mut around = network.supernets();
                around.any(|outer| list.get(outer).is_some() || list.cut.contains(&outer))
            };
            if list.action == Action::Ban && networks.iter().any(covers) {
                self.states.entry(Arc::clone(name)).or_default().is_outdated = true;
            }
        }
    }

    /// The file was taken, which was last downloaded at `fetched`.
    pub fn succeeded(&mut self, name: &Arc<str>, fetched: Option<Timestamp>) {
        let state = self.states.entry(Arc::clone(name)).or_default();
        state.tried = Some(clock::monotonic());
        state.read = Some(clock::wall());
        state.fetched = fetched;
        state.error = None;
        state.is_silent = false;
    }

    /// The file was not taken. Answers whether that is to be logged: at once, when the reason is another one, and then each hour.
    pub fn failed(&mut self, name: &Arc<str>, error: String) -> bool {
        let state = self.states.entry(Arc::clone(name)).or_default();
        let now = clock::monotonic();
        let is_known = state.error.as_ref() == Some(&error)
            && state
                .reported
                .is_some_and(|reported| now - reported < TOLD_EVERY);
        if !is_known {
            state.reported = Some(now);
        }
        state.tried = Some(now);
        state.errors += 1;
        state.is_silent = error.ends_with(SILENCE);
        state.error = Some(error);
        !is_known
    }

    /// How it went with the file of a list.
    pub fn state(&self, name: &str) -> FileState {
        self.states.get(name).cloned().unwrap_or_default()
    }

    /// Forgets the files that the configuration does not name.
    pub fn retain(&mut self, lists: &BTreeMap<String, ListConfig>) {
        self.states.retain(|name, _| lists.contains_key(&**name));
    }
}

impl FileState {
    fn is_due(&self, every: Option<Duration>) -> bool {
        let again = self.is_silent.then_some(SILENT);
        let is_read = Arc::strong_count(&self.reader) > 1;
        let every = every.into_iter().chain(again).min();
        let is_over = |every| {
            self.tried
                .is_none_or(|tried| clock::elapsed(tried) >= every)
        };
        !is_read && (self.is_outdated || every.is_some_and(is_over))
    }
}
