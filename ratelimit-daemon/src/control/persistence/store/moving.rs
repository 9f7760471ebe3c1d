//! Moves the database to another directory, replacing one there, and restores its file if it was
//! deleted.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use anyhow::{Context, bail};
use rusqlite::Connection;

use super::Store;
use crate::private;

/// Returns device and inode of the file at `path`, if it exists.
pub fn file_at(path: &Path) -> io::Result<Option<[u64; 2]>> {
    let found = private::if_there(fs::metadata(path))?;
    Ok(found.map(|it| [it.dev(), it.ino()]))
}

impl Store {
    /// Creates the file again, with its full content, if it was deleted. Returns whether it was.
    ///
    /// # Errors
    ///
    /// Returns why further writes are lost when the daemon ends.
    pub fn keep_in_place(&mut self) -> anyhow::Result<bool> {
        let path = self.directory.join("state.db");
        let named = || path.display().to_string();
        match file_at(&path).with_context(named)? {
            Some(file) if file == self.file => return Ok(false),
            Some(_) => bail!("{} is another file, which the next start reads", named()),
            None => {}
        }
        private::make_directory(&self.directory).with_context(named)?;
        let directory = self.directory.clone();
        self.move_to(&directory)?;
        Ok(true)
    }

    /// Moves to `directory`. After a crash, the database there is the old one or this one.
    ///
    /// # Errors
    ///
    /// Returns why the database stays where it is.
    pub fn move_to(&mut self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join("state.db");
        let beside = directory.join("state.db.new");
        let moving = || format!("moving the database to {}", directory.display());
        let _ = fs::remove_file(&beside);
        let copy = || -> anyhow::Result<()> {
            let target = beside.to_str().context("a path that is not UTF-8")?;
            self.connection.execute("VACUUM INTO ?1", [target])?;
            private::open(&beside)?.sync_all()?;
            if path.exists() {
                // The log of the old file would be applied to the new one.
                let before = Connection::open(&path)?;
                before.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
            }
            for name in ["state.db-wal", "state.db-shm", "state.changes"] {
                let _ = fs::remove_file(directory.join(name));
            }
            fs::rename(&beside, &path)?;
            Ok(File::open(directory)?.sync_all()?)
        };
        copy().with_context(moving)?;
        let moved = Self::open(directory)?;
        let before = std::mem::replace(self, moved);
        self.ban_clock = before.ban_clock;
        self.found = before.found;
        self.progress = before.progress;
        Ok(())
    }
}
