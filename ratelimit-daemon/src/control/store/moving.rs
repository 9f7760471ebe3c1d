//! Bringing the database to another directory, in place of the one that is there.

use std::{
    fs::{self, File},
    path::Path,
};

use anyhow::Context;
use rusqlite::Connection;

use super::Store;
use crate::private;

impl Store {
    /// Goes on in `directory`. Whoever is killed meanwhile finds the database there as it was before, or as it is here.
    ///
    /// # Errors
    ///
    /// Why it goes on where it is.
    pub fn move_to(&mut self, directory: &Path) -> anyhow::Result<()> {
        let path = directory.join("state.db");
        let beside = directory.join("state.db.new");
        let moving = || format!("bringing the database to {}", directory.display());
        let _ = fs::remove_file(&beside);
        let copy = || -> anyhow::Result<()> {
            let target = beside.to_str().context("a path that is not UTF-8")?;
            self.connection.execute("VACUUM INTO ?1", [target])?;
            private::open(&beside)?.sync_all()?;
            if path.exists() {
                // What stands in its log would be read into the new one.
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
        self.timekeeper = before.timekeeper;
        self.found = before.found;
        self.progress = before.progress;
        Ok(())
    }
}
