//! Lists that are read from files: when, and how it went.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_core::{api::Refused, config::ListConfig, list_file, lists::Reading};

/// A file to be read. That takes a while and needs nothing of the controller.
#[derive(Clone, Debug)]
pub struct ListFile {
    /// The name of the list.
    pub name: Arc<str>,
    /// What the configuration says of it.
    pub config: ListConfig,
}

/// How it went with the files so far.
#[derive(Debug, Default)]
pub struct ListFiles {
    states: BTreeMap<Arc<str>, FileState>,
}

/// How it went with a file.
#[derive(Clone, Debug, Default)]
pub struct FileState {
    tried: Option<Instant>,
    /// When it was last taken.
    pub read: Option<Timestamp>,
    /// How often it was not.
    pub errors: u64,
    /// Why it was not, the last time.
    pub error: Option<String>,
    /// When the log told so last.
    told: Option<Instant>,
}

/// How often the log tells of a file that is not taken, time and again for the same reason.
const TOLD_EVERY: Duration = Duration::from_hours(1);

impl ListFile {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not taken as a list.
    pub fn read(&self) -> Result<Reading, Refused> {
        list_file::read(&self.config, Timestamp::now())
    }
}

impl ListFiles {
    /// The lists that are due, of those that are read from time to time.
    pub fn due(&mut self, lists: &BTreeMap<String, ListConfig>) -> Vec<ListFile> {
        let mut due = Vec::new();
        for (name, config) in lists {
            let Some(every) = config.every else { continue };
            let state = self.states.entry(name.as_str().into()).or_default();
            if state.is_due(every) {
                state.tried = Some(Instant::now());
                due.push(ListFile {
                    name: name.as_str().into(),
                    config: config.clone(),
                });
            }
        }
        due
    }

    /// The file was taken.
    pub fn succeeded(&mut self, name: &Arc<str>) {
        let state = self.states.entry(Arc::clone(name)).or_default();
        state.tried = Some(Instant::now());
        state.read = Some(Timestamp::now());
        state.error = None;
    }

    /// The file was not taken. Answers whether that is to be logged: at once, when the reason is another one, and then each hour.
    pub fn failed(&mut self, name: &Arc<str>, error: String) -> bool {
        let state = self.states.entry(Arc::clone(name)).or_default();
        let now = Instant::now();
        let is_known = state.error.as_ref() == Some(&error)
            && state.told.is_some_and(|told| now - told < TOLD_EVERY);
        if !is_known {
            state.told = Some(now);
        }
        state.tried = Some(now);
        state.errors += 1;
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
    fn is_due(&self, every: Duration) -> bool {
        self.tried.is_none_or(|tried| tried.elapsed() >= every)
    }
}
