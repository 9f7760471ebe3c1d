//! Lists that are read from files: when, and how it went.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use ratelimit_core::{
    api::Refused,
    config::ListConfig,
    lists::{self, Acceptance, BYTES_MAX, Reading, Source, Vetting},
};

use super::{import::Ends, intent::Edit, list::List, lists::fill};

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
    /// The list of what was read from the file, as an edit, with entries that never end.
    pub(super) fn forever(self, reading: Reading) -> Edit {
        let mut entries = reading.entries;
        for entry in &mut entries {
            entry.until = None;
        }
        let ListConfig { action, file, .. } = self.config;
        let list = List::new(action, Some(file), Timestamp::now(), "config".into());
        let (list, _) = fill(list, entries, reading.reasons, &Ends::now(None));
        let touched = list.entries().iter().map(|entry| entry.prefix).collect();
        Edit::List(self.name, Some(Arc::new(list)), touched)
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or is not taken as a list.
    pub fn read(&self) -> Result<Reading, Refused> {
        let path = &self.config.file;
        let name = path.display().to_string();
        let (bytes, written) = read_file(path)
            .map_err(|error| Refused::because(format!("cannot read {name}: {error}")))?;
        let source = Source {
            name: &name,
            bytes: &bytes,
            now: Timestamp::now(),
            // What a set had left to live, it had when it was saved.
            written,
        };
        let vetting = Vetting {
            force: self.config.force,
            action: Some(self.config.action),
        };
        let acceptance = Acceptance {
            skip_bad: self.config.skip_bad,
            allow_empty: self.config.allow_empty,
        };
        let reading = lists::read(source, &vetting)?;
        let taken = acceptance.check(&name, &reading).map_err(Refused::from);
        taken.map_err(|refused| {
            if reading.bad.count == 0 {
                return refused;
            }
            // Whoever asks for a reload need not be allowed to read the file.
            let unquoted = Refused {
                error: reading.bad.unquoted(),
                ..refused.clone()
            };
            unquoted.quoting(refused.error)
        })?;
        Ok(reading)
    }
}

/// The bytes of a file, and when it was written. Nobody is waited for: a pipe may have no writer, and no end.
fn read_file(path: &Path) -> io::Result<(Vec<u8>, Timestamp)> {
    let mut options = fs::File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let message = "it is no regular file: write the list into one, and name that";
        return Err(io::Error::other(message));
    }
    let written = metadata.modified()?;
    let written = Timestamp::try_from(written).unwrap_or_else(|_| Timestamp::now());
    let mut bytes = Vec::new();
    file.take(BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > BYTES_MAX {
        let message = format!("it is larger than {} MiB", BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    Ok((bytes, written))
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
