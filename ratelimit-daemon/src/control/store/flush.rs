//! The log of the database, brought to the disk once a second: a commit does not wait for it, which takes milliseconds, and a
//! power failure costs the last second at most.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread,
};

use tracing::warn;

/// Brings a log to the disk, one time after the other.
pub struct Flusher {
    log: PathBuf,
    flushed: u64,
    is_busy: Arc<AtomicBool>,
}

impl Flusher {
    /// That of the log of the database at `path`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        Self {
            log: log.into(),
            flushed: 0,
            is_busy: Arc::default(),
        }
    }

    /// Brings the log to the disk, on a thread of its own, where there are `changes` that it did not see. A disk that takes
    /// longer than a second is not asked again meanwhile.
    pub fn flush(&mut self, changes: u64) {
        if changes == self.flushed || self.is_busy.swap(true, Relaxed) {
            return;
        }
        self.flushed = changes;
        let (log, is_busy) = (self.log.clone(), Arc::clone(&self.is_busy));
        thread::spawn(move || {
            if let Err(error) = File::open(&log).and_then(|file| file.sync_data()) {
                warn!(%error, path = %log.display(), "changes could not be brought to the disk");
            }
            is_busy.store(false, Relaxed);
        });
    }
}
