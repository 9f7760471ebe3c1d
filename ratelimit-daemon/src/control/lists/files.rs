//! When list files are read, and the results.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_core::{config::ListConfig, intent::Intent, lists::Action, prefix::Prefix};

use super::file::{ListFile, SILENCE};
use crate::clock;

/// The results so far.
#[derive(Debug, Default)]
pub struct ListFiles {
    /// Whether the files were read since the start.
    pub are_read: bool,
    states: BTreeMap<Arc<str>, FileState>,
}

/// The state of a file.
#[derive(Clone, Debug, Default)]
pub struct FileState {
    tried: Option<Instant>,
    /// The time at which the file was last applied.
    pub read: Option<Timestamp>,
    /// The time at which the file was last downloaded.
    pub fetched: Option<Timestamp>,
    /// The number of failures.
    pub errors: u64,
    /// The last failure.
    pub error: Option<String>,
    /// The time at which the failure was last logged.
    reported: Option<Instant>,
    /// Shared with the file while it is being read.
    reader: Arc<()>,
    /// Whether its file system did not respond.
    is_silent: bool,
    /// Whether the connected networks changed since it was read.
    is_outdated: bool,
}

/// The interval at which the same failure is logged again.
const TOLD_EVERY: Duration = Duration::from_hours(1);
/// The pause before a file is retried whose file system did not respond.
const SILENT: Duration = Duration::from_secs(10);

impl ListFiles {
    /// Returns the files to read: those with an interval that are due, and those whose file system
    /// did not respond. Excludes files being read.
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

    /// Has the files read again whose lists depend on which `networks` are connected.
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

    /// Records that a file, last downloaded at `fetched`, was applied.
    pub fn succeeded(&mut self, name: &Arc<str>, fetched: Option<Timestamp>) {
        let state = self.states.entry(Arc::clone(name)).or_default();
        state.tried = Some(clock::monotonic());
        state.read = Some(clock::wall());
        state.fetched = fetched;
        state.error = None;
        state.is_silent = false;
    }

    /// Records a failure. Returns whether to log it: at once if the reason is new, then each hour.
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

    /// Returns the state of the file of a list.
    pub fn state(&self, name: &str) -> FileState {
        self.states.get(name).cloned().unwrap_or_default()
    }

    /// Forgets files that the configuration does not name.
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
