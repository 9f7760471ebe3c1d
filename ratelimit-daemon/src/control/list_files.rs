//! Lists that are read from files: when, and how it went.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, mpsc},
    thread,
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
    /// Is held as long as somebody reads the file, or waits for a file system that does not answer.
    reader: Arc<()>,
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
    /// As that of the file.
    reader: Arc<()>,
    /// Whether its file system did not answer.
    is_silent: bool,
}

/// How often the log tells of a file that is not taken, time and again for the same reason.
const TOLD_EVERY: Duration = Duration::from_hours(1);
/// How long a file system may take to answer, for all files that are read together, and for each of them behind one that does not.
const PATIENCE: Duration = Duration::from_secs(10);
const PATIENCE_LEFT: Duration = Duration::from_secs(1);
/// When a file is read again whose file system did not answer.
const SILENT: Duration = Duration::from_secs(10);

impl ListFile {
    /// The file of a list.
    #[must_use]
    pub fn new(name: &str, config: &ListConfig) -> Self {
        Self {
            name: name.into(),
            config: config.clone(),
            reader: Arc::default(),
        }
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not taken as a list.
    pub fn read(&self) -> Result<Reading, Refused> {
        self.read_by(&Deadline::default())
    }

    /// The same of one of several files, whose file systems may take until `deadline` to answer.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read).
    pub fn read_by(&self, deadline: &Deadline) -> Result<Reading, Refused> {
        list_file::take(&self.config, self.bytes_by(deadline), Timestamp::now())
    }

    /// What stands in the file, and when it was written. A thread of its own waits for the file system, which may never answer.
    fn bytes_by(&self, deadline: &Deadline) -> io::Result<(Vec<u8>, Timestamp)> {
        let (path, reader) = (self.config.file.clone(), Arc::clone(&self.reader));
        let (sender, bytes) = mpsc::sync_channel(1);
        thread::Builder::new().name("list".into()).spawn(move || {
            let read = list_file::read_file(&path, Timestamp::now());
            drop(reader);
            // Nobody may wait any more.
            let _ = sender.send(read);
        })?;
        let silence = || Err(io::Error::new(io::ErrorKind::TimedOut, SILENCE));
        let bytes = bytes.recv_timeout(deadline.left());
        bytes.unwrap_or_else(|_| silence())
    }
}

/// What is said of a file system that does not answer.
const SILENCE: &str = "its file system does not answer";

/// Until when file systems may take to answer.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Default for Deadline {
    /// That of files that are read from now on.
    fn default() -> Self {
        Self(Instant::now() + PATIENCE)
    }
}

impl Deadline {
    fn left(self) -> Duration {
        let left = self.0.saturating_duration_since(Instant::now());
        left.max(PATIENCE_LEFT)
    }
}

impl ListFiles {
    /// The lists that are due, of those that are read from time to time, and of those whose file system did not answer. None of them is
    /// being read.
    pub fn due(&mut self, lists: &BTreeMap<String, ListConfig>) -> Vec<ListFile> {
        let mut due = Vec::new();
        for (name, config) in lists {
            let state = self.states.entry(name.as_str().into()).or_default();
            if state.is_due(config.every) {
                state.tried = Some(Instant::now());
                due.push(ListFile {
                    reader: Arc::clone(&state.reader),
                    ..ListFile::new(name, config)
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
        state.is_silent = false;
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
        let is_over = |every| self.tried.is_none_or(|tried| tried.elapsed() >= every);
        !is_read && every.is_some_and(is_over)
    }
}
