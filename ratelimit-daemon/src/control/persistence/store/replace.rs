//! An empty database in place of one that is damaged or gone. It is made beside, and put there when it is whole.
//!
//! Until its first change nobody has looked at what the kernel holds. A daemon that ends before leaves that to the next one, which would
//! take the database for all that was ever intended otherwise.

use std::{fs::File, path::Path};

use anyhow::{Context, ensure};
use tracing::error;

use super::{
    Found, Store,
    damage::{self, Damage, with_suffix},
};
use crate::{control::time::timekeeper::Reading, private};

impl Store {
    /// Opens the database at `path`. A damaged one is put aside whole.
    pub(super) fn open_or_replace(path: &Path, boot: &str) -> anyhow::Result<Self> {
        let mut found = Found::Nothing;
        if path.exists() {
            match Self::open_sound(path, boot) {
                Err(error) if damage::is_damage(&error) => {
                    let error = format!("{error:#}");
                    let file = damage::put_aside(path)?;
                    error!(
                        error,
                        file = %file.display(),
                        "the database is damaged and was moved aside; bans and allows of the kernel are recovered, limits set at runtime are lost"
                    );
                    found = Found::Damaged(Damage { file, error });
                }
                opened => return opened,
            }
        }
        let store = Self::make(path, boot)?;
        Ok(Self { found, ..store })
    }

    /// What the kernel holds was looked at: from here on the database is all that is intended.
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
        // A log that has lost its database would be taken for that of this one, and so would the count of its changes.
        remove(path, &["-wal", "-shm"])?;
        private::remove(&path.with_file_name("state.changes"))?;
        damage::rename(&new, path)?;
        let directory = path.parent().unwrap_or(path);
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.with_context(|| format!("flushing {} to disk", directory.display()))?;
        Self::open_file(path, boot, None)
    }

    /// Brings all of it into its file, which then needs no log.
    fn close(self) -> anyhow::Result<()> {
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let is_busy: bool = self
            .connection
            .query_row(checkpoint, [], |row| row.get(0))?;
        ensure!(!is_busy, "the new database is in use by another process");
        Ok(())
    }
}

/// Removes the files of a database that there may be.
fn remove(path: &Path, suffixes: &[&str]) -> anyhow::Result<()> {
    for suffix in suffixes {
        private::remove(&with_suffix(path, suffix))?;
    }
    Ok(())
}
