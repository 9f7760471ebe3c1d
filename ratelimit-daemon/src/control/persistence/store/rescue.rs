//! A database in place of one that is damaged or gone: it is made beside, and put there when it is whole.
//!
//! What is under way stands in a document. A daemon that ends in between, or before it has looked at what the kernel holds, leaves
//! to the next one what is left to do. That would take the new database for all that was ever intended.

use std::{fs::File, path::Path};

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::{
    Found, Store,
    damage::{self, Damage, with_suffix},
};
use crate::{
    control::{persistence::state_file::StateFile, time::timekeeper::Reading},
    private,
};

/// What is under way.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Rescue {
    /// The database that is put aside; `None` where there was none.
    damaged: Option<Damage>,
}

impl Store {
    pub(super) fn open_or_replace(path: &Path, boot: &str) -> anyhow::Result<Self> {
        let kept = Rescue::beside(path);
        let begun = kept.read().unwrap_or_else(|error| {
            let error = format!("{error:#}");
            error!(error, "the schema of the database is lost");
            Some(Rescue::default())
        });
        let rescue = match begun {
            Some(rescue) if !rescue.is_done(path) => rescue,
            _ if !path.exists() => Rescue::default(),
            begun => match Self::open_sound(path, boot) {
                Ok(store) => {
                    let found = begun.map_or(Found::Sound, Rescue::found);
                    return Ok(Self { found, ..store });
                }
                Err(error) if damage::is_damage(&error) => Rescue::of_damaged(path, &error),
                Err(error) => return Err(error),
            },
        };
        kept.write(&rescue)?;
        rescue.run(path, boot)?;
        let store = Self::open_file(path, boot, None)?;
        let found = rescue.found();
        Ok(Self { found, ..store })
    }

    /// What the kernel holds was looked at: from here on the database is all that is intended.
    pub fn end_rescue(&self) -> anyhow::Result<()> {
        Rescue::beside(&self.directory.join("state.db")).remove()
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

impl Rescue {
    /// Where it is kept: in a document beside the database at `path`.
    fn beside(path: &Path) -> StateFile<Self> {
        StateFile::new(path.parent().unwrap_or(path), "rescue.json")
    }

    fn of_damaged(path: &Path, error: &anyhow::Error) -> Self {
        let damage = Damage {
            file: damage::name_aside(path),
            error: format!("{error:#}"),
        };
        Self {
            damaged: Some(damage),
        }
    }

    fn found(self) -> Found {
        self.damaged.map_or(Found::Nothing, Found::Damaged)
    }

    /// Whether the new database is in its place. What it takes over is read from one that is aside, so that comes first.
    fn is_done(&self, path: &Path) -> bool {
        let is_aside = |damage: &Damage| damage.file.exists();
        path.exists() && self.damaged.as_ref().is_none_or(is_aside)
    }

    /// Makes the new database, from wherever an earlier daemon left off.
    fn run(&self, path: &Path, boot: &str) -> anyhow::Result<()> {
        if let Some(damage) = &self.damaged {
            damage::put_aside(path, &damage.file)?;
        }
        let new = with_suffix(path, ".new");
        remove(&new, &["", "-wal", "-shm"])?;
        let mut store = Store::open_file(&new, boot, None)?;
        if let Some(damage) = &self.damaged {
            let rows = store.salvage(&damage.file)?;
            error!(
                error = damage.error,
                file = %damage.file.display(),
                rows,
                "the database is damaged and was moved aside; its readable rows were recovered"
            );
        }
        store.note_time(Reading::now())?;
        store.close()?;
        // A log that has lost its database would be taken for that of this one.
        remove(path, &["-wal", "-shm"])?;
        damage::rename(&new, path)?;
        let directory = path.parent().unwrap_or(path);
        let synced = File::open(directory).and_then(|directory| directory.sync_all());
        synced.with_context(|| format!("flushing {} to disk", directory.display()))
    }
}

/// Removes the files of a database that there may be.
fn remove(path: &Path, suffixes: &[&str]) -> anyhow::Result<()> {
    for suffix in suffixes {
        private::remove(&with_suffix(path, suffix))?;
    }
    Ok(())
}
