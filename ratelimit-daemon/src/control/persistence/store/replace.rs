//! Replaces a damaged or missing database with an empty one, which is created under another name
//! and renamed when it is complete.
//!
//! Its first change records that the state of the kernel was adopted. If the daemon ends before,
//! the next one must adopt it: otherwise it would take the empty database for the whole intent.

use std::{fs::File, path::Path};

use anyhow::{Context, ensure};
use tracing::error;

use super::{
    Found, Store,
    damage::{self, Damage, with_suffix},
};
use crate::{control::time::ban_clock::Reading, private};

impl Store {
    /// Opens the database at `path`. A damaged one is renamed as a whole.
    pub(super) fn open_or_replace(path: &Path, boot: &str) -> anyhow::Result<Self> {
        let mut found = Found::Nothing;
        if path.exists() {
            match Self::open_sound(path, boot) {
                Err(error) if damage::is_damage(&error) => {
                    let error = format!("{error:#}");
                    let file = damage::rename_damaged(path)?;
                    error!(
                        error,
                        file = %file.display(),
                        "the database is damaged and was moved aside; bans and allows of the \
                         kernel are recovered, limits set at runtime are lost"
                    );
                    found = Found::Damaged(Damage { file, error });
                }
                opened => return opened,
            }
        }
        let store = Self::make(path, boot)?;
        Ok(Self { found, ..store })
    }

    /// Records that the state of the kernel was adopted. From here on, the database is the whole
    /// intent.
    pub fn end_adoption(&mut self) -> anyhow::Result<()> {
        if self.changes == 0 {
            self.note_time(Reading::now())?;
        }
        Ok(())
    }

    fn make(path: &Path, boot: &str) -> anyhow::Result<Self> {
        let new = with_suffix(path, ".new");
        remove(&new, &["", "-wal", "-shm"])?;
        Self::open_file(&new, boot, None)?.close()?;
        // The log and the change count of a lost database would be applied to this one.
        remove(path, &["-wal", "-shm"])?;
        private::remove(&path.with_file_name("state.changes"))?;
        damage::rename(&new, path)?;
        let directory = path.parent().unwrap_or(path);
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.with_context(|| format!("flushing {} to disk", directory.display()))?;
        Self::open_file(path, boot, None)
    }

    /// Writes everything to the file, which then needs no log.
    fn close(self) -> anyhow::Result<()> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: bool = self
            .connection
            .query_row(checkpoint, [], |row| row.get(0))?;
        ensure!(!is_busy, "the new database is in use by another process");
        Ok(())
    }
}

/// Removes the files of a database, if they exist.
fn remove(path: &Path, suffixes: &[&str]) -> anyhow::Result<()> {
    for suffix in suffixes {
        private::remove(&with_suffix(path, suffix))?;
    }
    Ok(())
}
