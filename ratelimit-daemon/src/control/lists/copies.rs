//! Copies of imported lists next to the database, because nothing else can restore such a list if
//! the database is lost.
//!
//! They are in the format of `rlctl export`, so `rlctl import` reads them. A separate thread writes
//! them: a million entries take half a second, and a full disk may block it for any time.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, BufRead, BufReader, Write},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::Duration,
};

use jiff::Timestamp;
use ratelimit_core::{
    intent::{Edit, list::List},
    lists::{self, Line, ListText, Vetting},
};
use tracing::{info, warn};

use super::{export::Export, fill};
use crate::{
    clock,
    control::{reports::log_throttle::Reminder, time::expiry::Ends},
    private,
};

const ENDING: &str = "jsonl";
/// The pause after a failed write.
const AGAIN: Duration = Duration::from_secs(1);

/// The lists whose copies are to be written, or removed if `None`.
type Wanted = BTreeMap<Arc<str>, Option<Arc<List>>>;

pub struct ListCopies {
    directory: PathBuf,
    writer: Option<(mpsc::Sender<Wanted>, thread::JoinHandle<()>)>,
}

impl ListCopies {
    /// Opens the copies in the state directory.
    pub fn beside(state: &Path) -> Self {
        Self {
            directory: state.join("lists"),
            writer: None,
        }
    }

    /// Updates copies that differ from the current lists.
    pub fn reconcile(&mut self, lists: &BTreeMap<Arc<str>, Arc<List>>) {
        let imported = lists.iter().filter(|(_, list)| list.file.is_none());
        let imported: BTreeMap<_, _> = imported.collect();
        let names = names(&self.directory);
        let gone = names.iter().filter(|name| !imported.contains_key(name));
        let mut wanted: Wanted = gone.map(|name| (Arc::clone(name), None)).collect();
        for (name, list) in imported {
            if self.since(name) != Some(list.since) {
                wanted.insert(Arc::clone(name), Some(Arc::clone(list)));
            }
        }
        self.write(wanted);
    }

    /// Updates the copies of the lists that `edits` changed.
    pub fn keep(&mut self, edits: &[Edit], lists: &BTreeMap<Arc<str>, Arc<List>>) {
        let wanted = edits.iter().filter_map(|edit| {
            let Edit::List(name, ..) = edit else {
                return None;
            };
            let imported = lists.get(name).filter(|list| list.file.is_none());
            Some((Arc::clone(name), imported.cloned()))
        });
        self.write(wanted.collect());
    }

    /// Reads the lists of all copies. Invalid lines are skipped.
    pub fn read(&self) -> Vec<(Arc<str>, List)> {
        let names = names(&self.directory).into_iter();
        let read = names.filter_map(|name| match self.read_one(&name) {
            Ok(list) => Some((name, list?)),
            Err(error) => {
                let file = file(&self.directory, &name).display().to_string();
                warn!(file, error, "cannot read the copy of a list");
                None
            }
        });
        read.collect()
    }

    /// Waits until everything was tried.
    pub fn finish(&mut self) {
        if let Some((wanted, thread)) = self.writer.take() {
            drop(wanted);
            // A panic was already logged.
            let _ = thread.join();
        }
    }

    fn write(&mut self, wanted: Wanted) {
        if wanted.is_empty() {
            return;
        }
        let directory = self.directory.clone();
        let (writer, _) = self.writer.get_or_insert_with(|| {
            let (sender, receiver) = mpsc::channel();
            (sender, thread::spawn(move || run(&directory, &receiver)))
        });
        // A panic was already logged.
        let _ = writer.send(wanted);
    }

    /// Returns the date of the list in a copy.
    fn since(&self, name: &str) -> Option<Timestamp> {
        let file = fs::File::open(file(&self.directory, name)).ok()?;
        let mut first = String::new();
        BufReader::new(file).read_line(&mut first).ok()?;
        serde_json::from_str::<Line<'_>>(&first).ok()?.since
    }

    fn read_one(&self, name: &str) -> Result<Option<List>, String> {
        let file = file(&self.directory, name);
        let bytes = fs::read(&file).map_err(|error| error.to_string())?;
        let now = clock::wall();
        let source = ListText {
            name: &file.display().to_string(),
            bytes: &bytes,
            now,
            written: now,
        };
        // It was vetted when it was imported.
        let vetting = Vetting {
            force: true,
            ..Vetting::default()
        };
        let reading = lists::read(source, &vetting).map_err(|error| error.error)?;
        let facts = reading.entries.first().map(|entry| entry.facts);
        let facts = facts.and_then(|index| reading.facts.get(usize::try_from(index).ok()?));
        let Some(facts) = facts else {
            return Ok(None);
        };
        let author = facts.author.as_deref().unwrap_or_default();
        let since = facts.since.unwrap_or(now);
        let list = List::new(facts.action.unwrap_or_default(), None, since, author.into());
        let (list, _) = fill(list, reading.entries, reading.reasons, &Ends::now(None));
        Ok(Some(list))
    }
}

impl Drop for ListCopies {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Writes wanted copies until all senders are gone, and tries each at least once.
fn run(directory: &Path, wishes: &mpsc::Receiver<Wanted>) {
    let mut wanted = Wanted::new();
    let mut reminder = Reminder::default();
    loop {
        let wish = if wanted.is_empty() {
            wishes.recv().map_err(mpsc::RecvTimeoutError::from)
        } else {
            wishes.recv_timeout(AGAIN)
        };
        match wish {
            Ok(wish) => wanted.extend(wish),
            Err(mpsc::RecvTimeoutError::Timeout) => {}
            Err(mpsc::RecvTimeoutError::Disconnected) => return,
        }
        wanted.extend(wishes.try_iter().flatten());
        let had_failed = reminder.is_reported();
        wanted.retain(|name, list| {
            let Err(error) = replace(directory, name, list.as_ref()) else {
                return false;
            };
            if reminder.is_due() {
                let list = &**name;
                warn!(list, %error, "cannot write the copy of a list; retrying every second");
            }
            true
        });
        if wanted.is_empty() && had_failed {
            info!("the copies of all lists are written");
            reminder = Reminder::default();
        }
    }
}

fn replace(directory: &Path, name: &Arc<str>, list: Option<&Arc<List>>) -> io::Result<()> {
    let path = file(directory, name);
    let Some(list) = list else {
        return private::if_there(fs::remove_file(path)).map(drop);
    };
    private::make_directory(directory)?;
    private::replace(&path, |file| {
        let export = Export::of_single_list(Arc::clone(name), Arc::clone(list));
        let mut parts = export.others();
        parts.try_for_each(|part| file.write_all(part.as_bytes()))
    })
}

fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.{ENDING}"))
}

fn names(directory: &Path) -> Vec<Arc<str>> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        Some(name.strip_suffix(ENDING)?.strip_suffix('.')?.into())
    });
    names.collect()
}
