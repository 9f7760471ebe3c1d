//! Syncs and checkpoints the log of the database, which take milliseconds, on other threads. The
//! log is synced once a second, so a power failure loses the last second at most.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use rusqlite::{Connection, OpenFlags};
use tracing::warn;

use super::damage::with_suffix;

/// The changes after which the log is checkpointed. Many of them change the same pages.
const CHANGES_LOGGED: u64 = 1_000;

/// Syncs and checkpoints a log, one at a time.
pub struct Flusher {
    database: PathBuf,
    log: PathBuf,
    flushed: u64,
    synced: Arc<AtomicU64>,
    brought_over: u64,
    is_flushing: Arc<AtomicBool>,
    is_bringing_over: Arc<AtomicBool>,
}

impl Flusher {
    /// Returns a flusher for the log of the database at `path`, which has this number of `changes`.
    pub fn of(path: &Path, changes: u64) -> Self {
        Self {
            database: path.to_owned(),
            log: with_suffix(path, "-wal"),
            flushed: 0,
            synced: Arc::default(),
            brought_over: changes,
            is_flushing: Arc::default(),
            is_bringing_over: Arc::default(),
        }
    }

    /// Syncs the log on another thread, if it has unsynced `changes`. Does nothing while an earlier
    /// sync is still running.
    pub fn flush(&mut self, changes: u64) {
        if changes == self.flushed || self.is_flushing.swap(true, Relaxed) {
            return;
        }
        self.flushed = changes;
        let (log, synced) = (self.log.clone(), Arc::clone(&self.synced));
        spawn(&self.is_flushing, move || {
            match File::open(&log).and_then(|file| file.sync_data()) {
                Ok(()) => synced.store(changes, Relaxed),
                Err(error) => {
                    warn!(%error, path = %log.display(), "cannot flush changes to disk");
                }
            }
        });
    }

    /// Returns the number of changes that were synced since the start.
    pub fn synced(&self) -> u64 {
        self.synced.load(Relaxed)
    }

    /// Checkpoints a long log on another thread. The next commit after that starts the log from its
    /// beginning.
    pub fn shorten(&mut self, changes: u64) {
        let is_long = changes >= self.brought_over + CHANGES_LOGGED;
        if !is_long || self.is_bringing_over.swap(true, Relaxed) {
            return;
        }
        self.brought_over = changes;
        let database = self.database.clone();
        spawn(&self.is_bringing_over, move || {
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let checkpoint = |connection: Connection| {
                connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
            };
            if let Err(error) = Connection::open_with_flags(&database, flags).and_then(checkpoint) {
                warn!(
                    %error, path = %database.display(),
                    "cannot checkpoint the log into the database"
                );
            }
        });
    }
}

/// Runs `work`, and notes when it is done.
fn spawn(is_busy: &Arc<AtomicBool>, work: impl FnOnce() + Send + 'static) {
    let is_busy = Arc::clone(is_busy);
    thread::spawn(move || {
        work();
        is_busy.store(false, Relaxed);
    });
}
